//! The tour of the README, as a reader would type it.

use crate::harness::{clio, run};
use std::path::Path;
use std::process::Command;

/// The README's console sessions, each a list of commands and what they print.
fn sessions() -> Vec<Vec<(String, Vec<String>)>> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md")).unwrap();
    let blocks = text.split("```console\n").skip(1).map(|rest| rest.split_once("```").unwrap().0);
    let session = |block: &str| {
        let mut commands: Vec<(String, Vec<String>)> = Vec::new();
        for line in block.lines() {
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(command), _) => commands.push((command.into(), Vec::new())),
                (None, Some((_, output))) => output.push(line.into()),
                (None, None) => panic!("a session starts with a command: {line}"),
            }
        }
        commands
    };
    blocks.map(session).collect()
}

/// What stays the same from one run to another: no numbers but those of the layout, no names of users.
fn alike(shown: &str, printed: &str) -> bool {
    let words = |line: &str| line.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    let (shown, printed) = (words(shown), words(printed));
    let is_name = |w: &str| w.chars().all(|c| c.is_ascii_alphabetic() || c == ':' || c == ',');
    shown.len() == printed.len() && shown.iter().zip(&printed).all(|(s, p)| !is_name(s) || s == p || s == "root")
}

#[test]
fn the_tour_works_as_it_is_shown() {
    let room = tempfile::tempdir().unwrap();
    let store = room.path().join("store");
    let bin = Path::new(env!("CARGO_BIN_EXE_clio")).parent().unwrap();
    let mut script = format!("set -e\nPATH={}:$PATH\n", bin.display());
    // Whatever happens, no daemon stays.
    script += "trap 'clio --store node:/tmp/store shutdown >/dev/null 2>&1 || :' EXIT\n";
    let mut shown = Vec::new();
    // Examples have tests of their own.
    let left_out = |command: &str| command.starts_with("export PATH=") || command.starts_with("cargo ");
    for (command, output) in sessions().into_iter().flatten().filter(|(command, _)| !left_out(command)) {
        script += &format!("echo '== {}'\n{{\n{command}\n}} 2>&1\n", shown.len());
        shown.push((command, output));
    }
    for word in ["clio check", "node:/tmp/store", "clio shutdown"] {
        assert!(script.contains(word), "the README has changed: '{word}' is not in {script}");
    }
    let store_text = store.display().to_string();
    let mut tour = Command::new("sh");
    tour.args(["-c", &script.replace("/tmp/store", &store_text)]).current_dir(room.path());
    // As `clio` is run by all tests: with none of the tester's own settings.
    for (name, value) in clio().get_envs() {
        match value {
            Some(value) => tour.env(name, value),
            None => tour.env_remove(name),
        };
    }
    let ran = run(tour.env("CLIO_RUNTIME_DIR", room.path().join("run")), b"").ok().text();
    let ran = ran.replace(&store_text, "/tmp/store");
    for (n, (command, output)) in shown.iter().enumerate() {
        let (_, rest) = ran.split_once(&format!("== {n}\n")).unwrap();
        let printed: Vec<_> = rest.split("== ").next().unwrap().lines().collect();
        // The README leaves out the rest.
        let cut = output.iter().position(|l| l.trim() == "...");
        assert!(cut.is_some() || output.len() == printed.len(), "$ {command}: {printed:#?}");
        for (shown, printed) in output[..cut.unwrap_or(output.len())].iter().zip(&printed) {
            // How the transfers went is up to the moment.
            assert!(
                alike(shown, printed) || shown.contains("RPCs"),
                "$ {command}: '{shown}' is shown, and here: '{printed}'"
            );
        }
    }
}
