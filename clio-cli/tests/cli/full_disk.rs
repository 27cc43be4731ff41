//! A disk that has no room for a copy: the copy is told to have failed, and no half of it looks like a file.

use crate::harness::{Bed, left_out, noise, run};
use std::process::Command;

/// Runs `script` as root of its own user namespace, with a file system of 15 MiB at `$1` and the command as `$CLIO`. `None`
/// if that isn't allowed here; where it has to be, in CI, that is a failure.
pub(crate) fn on_a_small_disk(bed: &Bed, script: &str) -> Option<String> {
    let disk = bed.local("disk");
    std::fs::create_dir(&disk).unwrap();
    let small = |script: &str| {
        let all = format!("mount -t tmpfs -o size=15m tmpfs \"$1\" || exit 111; {script}");
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &all, "sh"]).arg(&disk);
        command.env("CLIO", env!("CARGO_BIN_EXE_clio")).env("CLIO_STORE", format!("dir:{}/s", disk.display()));
        command
    };
    if !small("true").output().is_ok_and(|o| o.status.success()) {
        left_out("no right to mount a small file system");
        return None;
    }
    Some(run(&mut small(script), b"").ok().text())
}

#[test]
fn copies_that_find_no_room_leave_no_half() {
    let bed = Bed::without_store();
    let big = bed.make("big", &noise(30_000_000));
    let script = r#"
        $CLIO format
        $CLIO put "$BIG" /new 2>&1; echo "put: $?"
        echo small | $CLIO put - /old
        $CLIO put "$BIG" /old 2>&1; echo "over: $?"
        $CLIO put - /stream <"$BIG" 2>&1; echo "stream: $?"
        head -c 4000000 "$BIG" | $CLIO put - /fits; echo "fits: $?"
        $CLIO mkdir /bounded; $CLIO setstripe -E 1M -c 1 /bounded
        $CLIO put "$BIG" /bounded/x 2>&1; echo "bounded: $?"
        $CLIO ls /bounded; $CLIO rm -r /bounded
        $CLIO cp /fits /twice 2>&1; echo "cp: $?"
        $CLIO cp /fits /thrice 2>&1
        $CLIO cp /fits /four 2>&1; echo "full: $?"
        for f in old fits twice; do $CLIO cat /$f | wc -c; done
        $CLIO ls; $CLIO check | tail -1
    "#;
    let script = script.replace("$BIG", &big.display().to_string());
    let Some(text) = on_a_small_disk(&bed, &script) else { return };
    for line in ["put: 1", "over: 1", "stream: 1", "fits: 0", "bounded: 1", "cp: 0", "full: 1"] {
        assert!(text.contains(&format!("{line}\n")), "{line}: {text}");
    }
    assert!(text.matches("(ENOSPC)").count() >= 4, "{text}");
    assert!(text.ends_with("\n0\n4000000\n4000000\nfits\nold\nthrice\ntwice\nclean\n"), "{text}");
}
