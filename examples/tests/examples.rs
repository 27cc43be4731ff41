//! Every example runs, and does what it says. They check their own data; here it is that they end well, and what they print.

use std::collections::BTreeSet;
use std::process::Command;

/// What the example prints, after it has ended well.
#[track_caller]
fn output(program: &str, args: &[&str]) -> String {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(n, _)| n.as_encoded_bytes().starts_with(b"CLIO_")) {
        command.env_remove(name);
    }
    let out = command.args(args).env("XDG_CONFIG_HOME", "/nonexistent").output().expect("it starts");
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{said}\n{}", String::from_utf8_lossy(&out.stderr));
    said
}

#[test]
fn demo() {
    let said = output(env!("CARGO_BIN_EXE_demo"), &["--size", "8"]);
    for line in ["8 MiB of simulated field data, 500 small files", "all 501 files are equal", "\nclean"] {
        assert!(said.contains(line), "'{line}' is not in: {said}");
    }
    for bad in [&["--size"][..], &["--size", "0"], &["--size", "x"], &["--sise", "8"], &["--size", "8", "9"]] {
        let out = Command::new(env!("CARGO_BIN_EXE_demo")).args(bad).output().expect("it starts");
        assert!(!out.status.success() && out.stdout.is_empty(), "{bad:?}");
        assert!(String::from_utf8_lossy(&out.stderr).contains("--size"), "{bad:?}");
    }
}

#[test]
fn embed() {
    assert_eq!(output(env!("CARGO_BIN_EXE_embed"), &[]), "32768 bytes, read back by a second client\n");
}

#[test]
fn counting_layer() {
    let said = output(env!("CARGO_BIN_EXE_counting_layer"), &[]);
    let lines: Vec<Vec<_>> = said.lines().map(|l| l.split_whitespace().collect()).collect();
    assert!(matches!(lines[0].as_slice(), ["iterations", n] if *n != "0"), "{said}");
    assert_eq!(lines[1..], [vec!["staged", "8", "MiB"], vec!["read", "from", "below", "8", "MiB"]], "{said}");
}

#[test]
fn there_are_no_others() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin");
    let names = std::fs::read_dir(folder).expect("the examples").map(|e| e.expect("entry").file_name());
    let wanted = ["counting_layer.rs", "demo.rs", "embed.rs"];
    assert_eq!(names.collect::<BTreeSet<_>>(), wanted.map(Into::into).into(), "give the new one a test");
}
