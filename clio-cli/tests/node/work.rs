//! What a client does that is killed at any moment: says what it is about to do, does it, says that it is done.

use crate::history::SLOT;
use crate::rng::Rng;
use crate::roles::filled;
use clio::{Client, File, Result};

/// Slots of the client's own file.
const SLOTS: u64 = 48;

/// Client number `c` does `count` things to its own file, to one that all append to, and to names in its folder. Stamps
/// are `first_stamp` and those after.
///
/// # Errors
/// Those of what it does: none, whoever is killed.
pub fn work(
    client: &Client,
    c: u64,
    (own, log): (&File, &File),
    seed: u64,
    count: u64,
    first_stamp: u64,
) -> Result<()> {
    let mut rng = Rng::new(seed);
    let mut made: Option<String> = None;
    for stamp in first_stamp + 1..=first_stamp + count {
        match rng.below(8) {
            0..=3 => {
                let slot = rng.below(SLOTS);
                println!("\ntry write {slot} {stamp}");
                own.write_all_at(&filled(stamp), slot * SLOT)?;
                println!("ack write {slot} {stamp}");
            }
            4 => {
                own.sync_all()?;
                log.sync_all()?;
                println!("\nack sync");
            }
            5 => {
                println!("\ntry append {stamp}");
                let at = log.append(&filled(stamp))?;
                println!("ack append {} {stamp}", at / SLOT);
            }
            which => match made.take() {
                None => {
                    println!("\ntry make {stamp}");
                    client.mkdir(format!("/n{c}/{stamp}"))?;
                    println!("ack names");
                    made = Some(stamp.to_string());
                }
                Some(name) if which == 6 => {
                    println!("\ntry rename {name} {stamp}");
                    client.rename(format!("/n{c}/{name}"), format!("/n{c}/{stamp}"))?;
                    println!("ack names");
                    made = Some(stamp.to_string());
                }
                Some(name) => {
                    println!("\ntry remove {name}");
                    client.remove_dir(format!("/n{c}/{name}"))?;
                    println!("ack names");
                }
            },
        }
    }
    Ok(())
}
