//! Every fuzz target over its corpus, and over near misses of its seeds.

use clio_testkit::fuzz::{TARGETS, seeds};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

/// Files of a folder by name; none if there is no folder.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let read = |path: PathBuf| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap());
    entries.map(|e| read(e.unwrap().path())).collect()
}

#[test]
fn corpus() {
    for target in TARGETS {
        let inputs = files(&fuzz_folder().join("corpus").join(target.name));
        assert!(!inputs.is_empty(), "{} has no corpus", target.name);
        for (name, input) in inputs {
            println!("{}/{name}", target.name); // shown if it fails
            (target.run)(&input);
        }
    }
}

#[test]
fn seeds_are_current_and_do_what_they_say() {
    for target in TARGETS {
        let mut stored = files(&fuzz_folder().join("corpus").join(target.name));
        stored.retain(|name, _| name.starts_with("seed-"));
        let made: Vec<_> = seeds().into_iter().filter(|s| s.target == target.name).collect();
        for seed in &made {
            assert_eq!((target.run)(&seed.bytes), seed.verdict, "{}/{}", target.name, seed.name);
        }
        let made: BTreeMap<_, _> = made.into_iter().map(|s| (s.file_name(), s.bytes)).collect();
        assert!(stored == made, "{}: run `cargo run -p clio-testkit --example fuzz_seeds`", target.name);
    }
}

/// What a fuzzer tries first: each seed cut short anywhere, and with each byte changed.
#[test]
fn near_misses_of_seeds() {
    for seed in seeds() {
        let target = TARGETS.iter().find(|t| t.name == seed.target).unwrap();
        for at in 0..seed.bytes.len() {
            println!("{}/{} at {at}", seed.target, seed.name);
            (target.run)(&seed.bytes[..at]);
            for change in [1, 0x80, 0xff] {
                let mut bytes = seed.bytes.clone();
                bytes[at] ^= change;
                (target.run)(&bytes);
            }
        }
    }
}

#[test]
fn each_target_has_its_program() {
    let programs = files(&fuzz_folder().join("fuzz_targets"));
    let expected: Vec<_> = TARGETS.iter().map(|t| format!("{}.rs", t.name)).collect();
    assert_eq!(programs.keys().cloned().collect::<Vec<_>>(), expected);
    let manifest = fs::read_to_string(fuzz_folder().join("Cargo.toml")).unwrap();
    for (target, program) in TARGETS.iter().zip(programs.values()) {
        assert!(String::from_utf8_lossy(program).contains(&format!("fuzz::{}(", target.name)));
        assert!(manifest.contains(&format!("name = \"{}\"", target.name)), "{} is not in the manifest", target.name);
    }
}
