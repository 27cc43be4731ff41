//! Writes the seeds into `fuzz/corpus`, after a stored form has changed: `cargo run -p clio-testkit --example fuzz_seeds`.

use clio_testkit::fuzz::{TARGETS, seeds};
use std::path::Path;

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    for target in TARGETS {
        let folder = corpus.join(target.name);
        std::fs::create_dir_all(&folder)?;
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("seed-") {
                std::fs::remove_file(entry.path())?;
            }
        }
    }
    for seed in seeds() {
        std::fs::write(corpus.join(seed.target).join(seed.file_name()), &seed.bytes)?;
    }
    Ok(())
}
