//! Targets share the process's open files with the program that they are part of.

use clio_core::units::{Fid, TargetIndex};
use clio_targets::conformance::{Client, pattern};
use clio_targets::{DirOptions, DirTarget};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Names the folder for targets to a process with few open files.
const FOLDER: &str = "DESCRIPTORS_TEST_FOLDER";
const LIMIT: usize = 64;
const OBJECTS: u32 = 40;

fn open(folder: &Path, index: u16) -> (Arc<DirTarget>, Client) {
    let options = DirOptions { index: TargetIndex(index), create: true, ..DirOptions::default() };
    let target = Arc::new(DirTarget::open(folder.join(index.to_string()), &options).unwrap());
    (target.clone(), Client::connect(target))
}

fn fid(i: u32) -> Fid {
    Fid::new(7, i)
}

/// Files of objects that this process has open.
fn open_objects() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
    open.filter(|file| file.components().any(|c| c.as_os_str() == "objects")).count()
}

/// Not a test by itself: does nothing unless it is [`a_program_keeps_its_half_of_the_descriptors`]'s process.
#[test]
fn with_few_descriptors() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let ((_first, a), (second, b)) = (open(folder, 0), open(folder, 1));
    for i in 0..OBJECTS {
        for client in [&a, &b] {
            client.write(fid(i), 0, &pattern(u64::from(i), 5000)).unwrap();
            assert!(open_objects() <= LIMIT / 2, "{} of {LIMIT} at object {i}", open_objects());
        }
    }
    // All are one target's, whose share they are; and the program takes what is left.
    drop((second, b));
    let (_second, b) = open(folder, 1);
    for i in 0..OBJECTS {
        a.read(fid(i), 0, 5000).unwrap();
    }
    assert!(open_objects() > 0);
    let programs: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    assert!(!programs.is_empty());
    for i in 0..OBJECTS {
        assert!(b.read(fid(i), 0, 5000).unwrap().0 == pattern(u64::from(i), 5000), "object {i}");
        assert!(a.read(fid(i), 0, 5000).unwrap().0 == pattern(u64::from(i), 5000), "object {i}");
    }
}

#[test]
fn a_program_keeps_its_half_of_the_descriptors() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -n {LIMIT} && exec \"$0\" --exact with_few_descriptors --nocapture"));
    let ran = command.arg(std::env::current_exe().unwrap()).env(FOLDER, folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && folder.path().join("1").is_dir(), "{said}");
}
