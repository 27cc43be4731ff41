//! Stores that can't be written to: a folder without the right to, and a disk that is mounted read-only.

use crate::full_disk::on_a_small_disk;
use crate::harness::{Bed, bound_by_modes, run};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_folder_without_the_right_to_write() {
    let bed = Bed::without_store();
    fs::create_dir(bed.store_dir()).unwrap();
    fs::set_permissions(bed.store_dir(), fs::Permissions::from_mode(0o555)).unwrap();
    let Some(mut mkdir) = bound_by_modes(bed.command(["mkdir", "/d"])) else { return };
    run(&mut mkdir, b"").failed(1, &["clio: mkdir 'dir:", "EACCES"]);
    fs::set_permissions(bed.store_dir(), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(fs::read_dir(bed.store_dir()).unwrap().count(), 0, "a refused open leaves nothing behind");
}

#[test]
fn a_disk_that_is_mounted_read_only() {
    let bed = Bed::without_store();
    let script = r#"
        $CLIO format; echo content | $CLIO put - /f
        mount -o remount,ro "$1" || exit 112
        for command in "ls" "cat /f" "mkdir /d" "check"; do $CLIO $command 2>&1; echo "$command: $?"; done
        $CLIO --store "dir:$1/new" format 2>&1; echo "format: $?"
        $CLIO status --json | grep '"state"'
        mount -o remount,rw "$1" || exit 113
        $CLIO cat /f; $CLIO check
    "#;
    let Some(text) = on_a_small_disk(&bed, script) else { return };
    for line in ["ls: 1", "cat /f: 1", "mkdir /d: 1", "check: 1", "format: 1"] {
        assert!(text.contains(&format!("{line}\n")), "{line}: {text}");
    }
    let advice = "remount it for writing, or choose a folder that can be written (EROFS)";
    assert_eq!(text.matches(advice).count(), 5, "{text}");
    assert!(text.contains("\"state\": \"unusable\"") && text.contains("\ncontent\n"), "{text}");
    assert!(text.ends_with("clean\n"), "nothing was changed: {text}");
}
