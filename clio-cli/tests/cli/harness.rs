//! Runs `clio` and looks at what comes out.

use serde_json::Value;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A store in a folder of its own, and room for local files beside it.
pub(crate) struct Bed {
    root: TempDir,
    store: String,
}

/// What a run of `clio` left behind.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    what: String,
}

/// Says that a test is left out, since this machine lacks what it needs. In CI, where it has to be there, that is a failure.
pub(crate) fn left_out(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "{why}, and this test needs it");
    eprintln!("left out: {why}");
}

/// `command`, made to heed what files' modes say; root doesn't, otherwise. `None` if that can't be, which is said.
pub(crate) fn bound_by_modes(command: Command) -> Option<Command> {
    if !rustix::process::geteuid().is_root() {
        return Some(command);
    }
    let bound = || {
        let mut bound = Command::new("setpriv");
        bound.arg("--bounding-set=-dac_override,-dac_read_search");
        bound
    };
    if !bound().arg("true").status().is_ok_and(|s| s.success()) {
        left_out("setpriv can't take root's right to pass over modes away");
        return None;
    }
    Some(started_by(bound(), &command))
}

impl Bed {
    /// A store of four targets.
    pub(crate) fn new() -> Self {
        let bed = Self::without_store();
        bed.ok(["format", "--targets", "4"]);
        bed
    }

    /// A place for a store where there is none.
    pub(crate) fn without_store() -> Self {
        let root = tempfile::tempdir().unwrap();
        let store = format!("dir:{}", root.path().join("store").display());
        Self { root, store }
    }

    /// The store's folder.
    pub(crate) fn store_dir(&self) -> PathBuf {
        self.root.path().join("store")
    }

    /// A local path.
    pub(crate) fn local(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.path().join(name)
    }

    /// Makes a local file.
    pub(crate) fn make(&self, name: impl AsRef<Path>, bytes: &[u8]) -> PathBuf {
        let path = self.local(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// `clio` on this store, yet to be started, with nothing of the tester's own settings.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = clio();
        command.arg("--store").arg(&self.store).args(args);
        command
    }

    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ran {
        run(&mut self.command(args), b"")
    }

    pub(crate) fn run_with_input<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>, input: &[u8]) -> Ran {
        run(&mut self.command(args), input)
    }

    /// Runs what must succeed, without a word on stderr.
    #[track_caller]
    pub(crate) fn ok<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ran {
        self.run(args).ok()
    }

    #[track_caller]
    pub(crate) fn json<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Value {
        let mut command = self.command(args);
        run(command.arg("--json"), b"").ok().json()
    }
}

/// `clio` without a store.
pub(crate) fn clio() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_clio"));
    for (name, _) in std::env::vars_os().filter(|(n, _)| n.as_encoded_bytes().starts_with(b"CLIO_")) {
        command.env_remove(name);
    }
    command.env("TZ", "UTC").env("XDG_CONFIG_HOME", "/nonexistent");
    command
}

/// The same command, with at most so many open files.
pub(crate) fn with_few_files(command: &Command, limit: u32) -> Command {
    let mut limited = Command::new("sh");
    limited.arg("-c").arg(format!("ulimit -n {limit} && exec \"$0\" \"$@\""));
    started_by(limited, command)
}

/// The same command, started by `starter`, which takes it for its arguments.
fn started_by(mut starter: Command, command: &Command) -> Command {
    starter.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => starter.env(name, value),
            None => starter.env_remove(name),
        };
    }
    starter
}

pub(crate) fn run(command: &mut Command, input: &[u8]) -> Ran {
    let what = format!("{:?}", command.get_args().collect::<Vec<_>>());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let Output { status, stdout, stderr } = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A command that reads nothing closes the pipe.
            let _ = stdin.write_all(input);
        });
        child.wait_with_output().unwrap()
    });
    let code = status.code().unwrap_or(-1);
    Ran { code, stdout, stderr: String::from_utf8_lossy(&stderr).into_owned(), what }
}

impl Ran {
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert!(self.code == 0 && self.stderr.is_empty(), "{}: code {}: {}", self.what, self.code, self.stderr);
        self
    }

    /// That it failed with this code, and said all of `says` on stderr.
    #[track_caller]
    pub(crate) fn failed(self, code: i32, says: &[&str]) -> Self {
        let Ran { what, stderr, .. } = &self;
        assert_eq!(self.code, code, "{what}: {stderr}");
        for word in says {
            assert!(stderr.contains(word), "{what}: '{word}' is not in: {stderr}");
        }
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|e| panic!("{}: {e}: {}", self.what, self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.text().lines().map(str::to_string).collect()
    }
}

/// Bytes without a period that a stripe size could hide.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let step = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(step).collect()
}
