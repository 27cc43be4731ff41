//! Folder targets where nothing can be written: without the right to, and on a disk that is mounted read-only.

use clio_core::Errno;
use clio_core::units::Fid;
use clio_targets::conformance::Client;
use clio_targets::{DirOptions, DirTarget};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const FID: Fid = Fid { seq: 0x300, oid: 5, ver: 1 };

fn options() -> DirOptions {
    DirOptions { create: true, ..DirOptions::default() }
}

fn open(path: &Path) -> Client {
    Client::connect(Arc::new(DirTarget::open(path, &options()).unwrap()))
}

#[track_caller]
fn refused(path: &Path, errno: Errno, hint: &str) {
    let e = DirTarget::open(path, &options()).unwrap_err();
    assert_eq!(e.errno(), errno, "{e}");
    assert!(e.to_string().contains(hint) && e.to_string().contains(path.to_str().unwrap()), "{e}");
}

/// Runs the test `name` anew in name spaces of its own, made by `unshare` with `args`. `true` in that run, which has to do the
/// work. Where name spaces aren't allowed, the test is left out; in CI, where they have to be, that is a failure.
fn in_name_spaces_of_its_own(name: &str, args: &[&str]) -> bool {
    const INSIDE: &str = "TEST_IN_NAME_SPACES";
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    if !Command::new("unshare").args(args).arg("true").output().is_ok_and(|o| o.status.success()) {
        assert!(std::env::var_os("CI").is_none(), "no right to make name spaces, which this test needs");
        eprintln!("left out: no right to make name spaces");
        return false;
    }
    let mut anew = Command::new("unshare");
    anew.args(args).arg(std::env::current_exe().unwrap()).args(["--exact", name, "--nocapture"]).env(INSIDE, "1");
    let out = anew.output().unwrap();
    let said = [out.stdout, out.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(out.status.success() && said.contains("1 passed"), "{said}");
    false
}

#[test]
fn folders_without_permission() {
    // The owner stays who it is, but as nobody that the name space knows, root is root no more.
    if !in_name_spaces_of_its_own("folders_without_permission", &["--user"]) {
        return;
    }
    let tmp = tempfile::tempdir().unwrap();
    let target = tmp.path().join("target");
    fs::create_dir(&target).unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o555)).unwrap();
    refused(&target, Errno::EACCES, "permission");
    assert!(DirTarget::open("/proc/clio-target", &options()).is_err());
}

#[test]
fn disks_that_are_read_only() {
    if !in_name_spaces_of_its_own("disks_that_are_read_only", &["--user", "--map-root-user", "--mount"]) {
        return;
    }
    let tmp = tempfile::tempdir().unwrap();
    let mount = |args: &[&str]| {
        let out = Command::new("mount").args(args).arg(tmp.path()).output().unwrap();
        assert!(out.status.success(), "{out:?}");
    };
    mount(&["-t", "tmpfs", "-o", "size=8m", "tmpfs"]);
    let (made, new) = (tmp.path().join("made"), tmp.path().join("new"));
    open(&made).write(FID, 0, b"kept").unwrap();
    mount(&["-o", "remount,ro"]);
    for path in [&made, &new] {
        refused(path, Errno::EROFS, "remount it");
    }
    mount(&["-o", "remount,rw"]);
    assert_eq!(open(&made).read(FID, 0, 4).unwrap().0, b"kept");
    assert!(!new.exists());
    // Or the temporary folder can't be removed.
    Command::new("umount").arg("-l").arg(tmp.path()).status().unwrap();
}
