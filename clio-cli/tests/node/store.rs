//! A store in a temporary folder, and processes that use it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Tells a process of this test which store to use.
pub const STORE: &str = "NODE_TEST_STORE";
/// The word before an answer on its line; the test runner's own words may come before it.
pub const ANSWER: &str = "answer: ";

/// A store that goes with its daemon when this goes.
pub struct Store {
    folder: tempfile::TempDir,
}

impl Store {
    /// In memory where the system has a folder for that: it is processes that die, not the machine.
    pub fn new() -> Store {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("tempdir");
        std::fs::create_dir(folder.path().join("store")).expect("mkdir");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_cliod"), folder.path().join("cliod")).expect("symlink");
        Store { folder }
    }

    pub fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("store")
    }

    pub fn uri(&self) -> String {
        format!("node:{}?targets=2", self.path().display())
    }

    /// The daemon's program, as clients start it.
    pub fn program(&self) -> std::path::PathBuf {
        self.folder.path().join("cliod")
    }

    /// Where daemons listen.
    pub fn runtime_folder(&self) -> std::path::PathBuf {
        self.folder.path().join("run")
    }

    fn prepare(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("CLIO_RUNTIME_DIR", self.runtime_folder())
            .env("CLIO_CLIOD", self.program())
            // So that no daemon outlives a test that fails.
            .env("CLIO_IDLE_EXIT_S", "20")
            .env("CLIO_CACHE_MB", "16")
            .env_remove("CLIO_STORE");
        command
    }

    /// Runs `clio` on this store.
    pub fn clio(&self, args: &[&str]) -> std::process::Output {
        let mut command = self.prepare(Path::new(env!("CARGO_BIN_EXE_clio")));
        command.args(["--store", &format!("node:{}", self.path().display())]).args(args).output().expect("clio")
    }

    /// The process id of the daemon, if one runs.
    pub fn daemon(&self) -> Option<i32> {
        let out = self.clio(&["status", "--json"]);
        let status: serde_json::Value = serde_json::from_slice(&out.stdout).ok()?;
        status["daemon"]["pid"].as_i64().map(|pid| pid as i32)
    }

    /// Opens the store without a daemon, as soon as the one that was told to end has.
    pub fn open_folder(&self) -> clio::Client {
        loop {
            match clio::Client::open(&format!("dir:{}", self.path().display())) {
                Err(e) if e.errno() == clio::Errno::EBUSY => std::thread::yield_now(),
                client => return client.expect("open"),
            }
        }
    }

    /// Waits until process `pid` has ended.
    pub fn wait_for_end(pid: i32) {
        let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat"));
        // It may be a zombie of one of the processes of the test for a while.
        while stat().is_ok_and(|stat| !stat.contains(") Z ")) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// What a process holds that is about to start the daemon.
    pub fn start_lock(&self) -> std::fs::File {
        let entries = std::fs::read_dir(self.runtime_folder()).expect("runtime folder");
        let mut paths = entries.map(|e| e.expect("entry").path());
        let path = paths.find(|p| p.extension().is_some_and(|e| e == "start")).expect("a daemon was started");
        let file = std::fs::File::create(path).expect("open");
        file.lock().expect("lock");
        file
    }

    /// Another process that uses the store.
    pub fn process(&self) -> Process {
        let mut command = self.prepare(&std::env::current_exe().expect("exe"));
        command.args(["--exact", "child::process", "--nocapture"]).env(STORE, self.uri());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("spawn");
        let (input, output) = (child.stdin.take().expect("stdin"), child.stdout.take().expect("stdout"));
        Process { child, input, output: BufReader::new(output) }
    }

    pub fn processes<const N: usize>(&self) -> [Process; N] {
        std::array::from_fn(|_| self.process())
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.clio(&["shutdown"]);
    }
}

/// Another process. It does one thing after another as it is told, and ends when this goes.
pub struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Has it begin with something; [`Process::answer`] waits for it.
    pub fn begin(&mut self, command: &str) {
        writeln!(self.input, "{command}").expect("the process lives");
    }

    /// What it answers to what was begun.
    pub fn answer(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).expect("read"), 0, "the process has ended");
            if let Some((_, answer)) = line.split_once(ANSWER) {
                return answer.trim_end().to_string();
            }
        }
    }

    /// What it says of its work until it answers, or dies: lines that begin with `try` or `ack`.
    pub fn lines(&mut self) -> (Vec<String>, Option<String>) {
        let mut said = Vec::new();
        loop {
            let mut line = String::new();
            self.output.read_line(&mut line).expect("read");
            match line.strip_suffix('\n') {
                // The end, perhaps in the middle of a line.
                None => return (said, None),
                Some(line) if line.starts_with("try ") || line.starts_with("ack ") => said.push(line.to_string()),
                Some(line) => {
                    if let Some((_, answer)) = line.split_once(ANSWER) {
                        return (said, Some(answer.to_string()));
                    }
                }
            }
        }
    }

    /// Has it do something, and gives its answer.
    pub fn ask(&mut self, command: &str) -> String {
        self.begin(command);
        self.answer()
    }

    /// Has it do something that must go well.
    #[track_caller]
    pub fn tell(&mut self, command: &str) {
        assert_eq!(self.ask(command), "ok", "{command}");
    }

    /// Its number.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// kill -9.
    pub fn kill(mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn signal(pid: i32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a process id");
    rustix::process::kill_process(pid, signal).expect("kill");
}
