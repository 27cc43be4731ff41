//! What another process of a test does: a line on standard input is a command, a line on standard output its answer.

use crate::history::Event;
use crate::roles::{self, Role};
use crate::store::{ANSWER, STORE};
use crate::work::work;
use clio::{Client, File, OpenOptions};
use std::collections::HashMap;
use std::io::BufRead;

/// Not a test by itself: does nothing unless it is another test's process.
#[test]
fn process() {
    let Some(store) = std::env::var_os(STORE) else { return };
    let client = Client::open(store.to_str().expect("utf-8")).map_err(|e| e.to_string());
    let mut files = HashMap::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("stdin");
        let words: Vec<&str> = line.split(' ').collect();
        let answer = client.clone().and_then(|client| run(&client, &mut files, &words));
        println!("\n{ANSWER}{}", answer.unwrap_or_else(|e| e));
    }
}

pub fn run(client: &Client, files: &mut HashMap<String, File>, words: &[&str]) -> Result<String, String> {
    let name = |e: clio::Error| {
        // For whoever looks into a test that fails.
        eprintln!("{}: {e}", words.join(" "));
        format!("{:?}", e.errno())
    };
    let number = |at: usize| words[at].parse::<u64>().expect("a number");
    let file = |files: &HashMap<String, File>, at: usize| files.get(words[at]).cloned().ok_or("not open".to_string());
    let ok = |result: clio::Result<()>| result.map(|()| "ok".to_string()).map_err(name);
    match words[0] {
        "open" => {
            let mut options = OpenOptions::new().read(true).write(true).create(true);
            for word in &words[2..] {
                options = match *word {
                    "direct" => options.direct(true),
                    "append" => options.append(true),
                    "lazy" => options.lazyio(true),
                    "dsync" => options.dsync(true),
                    "wide" => options.layout(clio::Layout::raid0().stripe_count(2).stripe_size(64 << 10)),
                    other => panic!("{other}"),
                };
            }
            let file = client.open_with(words[1], options).map_err(name)?;
            files.insert(words[1].to_string(), file);
            Ok("ok".into())
        }
        "close" => ok(files.remove(words[1]).ok_or("not open")?.close()),
        "write" => {
            let data = vec![number(4) as u8; number(3) as usize];
            ok(file(files, 1)?.write_all_at(&data, number(2)))
        }
        "append" => {
            let data = vec![number(3) as u8; number(2) as usize];
            for _ in 0..number(4) {
                file(files, 1)?.append(&data).map_err(name)?;
            }
            Ok("ok".into())
        }
        "read" => {
            let mut buf = vec![0; number(3) as usize];
            let n = file(files, 1)?.read_at(&mut buf, number(2)).map_err(name)?;
            buf.truncate(n);
            Ok(runs(&buf))
        }
        "play" => {
            let file = file(files, 1)?;
            roles::play(&file, Role::parse(words[2]), number(3), number(4), number(5)).map(|events| told(&events))
        }
        "work" => {
            let own = files.get(&format!("/w{}", words[1])).cloned().ok_or("not open")?;
            ok(work(client, number(1), (&own, &file(files, 2)?), number(3), number(4), number(5)))
        }
        "look" => roles::look(&file(files, 1)?).map(|events| told(&events)),
        "size" => file(files, 1)?.metadata().map(|m| m.len().to_string()).map_err(name),
        "truncate" => ok(file(files, 1)?.set_len(number(2))),
        "propagate" => ok(file(files, 1)?.lazyio_propagate(number(2), number(3))),
        "synchronize" => ok(file(files, 1)?.lazyio_synchronize(number(2), number(3))),
        "punch" => ok(file(files, 1)?.punch_hole(number(2), number(3))),
        "sync" => ok(file(files, 1)?.sync_all()),
        "syncall" => ok(client.sync()),
        "drop" => ok(client.drop_caches()),
        "rename" => ok(client.rename(words[1], words[2])),
        "unlink" => ok(client.remove_file(words[1])),
        "mkdir" => ok(client.mkdir(words[1])),
        // Two clients of this process: one has filled its cache, the other's is its own.
        "twin" => {
            let twin = client.second_client().map_err(name)?;
            let file = twin.open_file(words[1]).map_err(name)?;
            let mut buf = vec![0; 1 << 20];
            for _ in 0..3 {
                for at in 0..8u64 {
                    file.read_exact_at(&mut buf, at << 20).map_err(name)?;
                }
            }
            let stats = twin.stats().cache;
            twin.check_invariants().map_err(name)?;
            Ok(format!(
                "{} MiB, {} blocks missed twice",
                stats.used_bytes >> 20,
                stats.missed_blocks.saturating_sub(8 << 8)
            ))
        }
        "churn" => {
            let (dir, rounds) = (words[1], number(2));
            for _ in 0..rounds {
                client.mkdir(dir).map_err(name)?;
                client.rename(dir, format!("{dir}.renamed")).map_err(name)?;
                client.remove_dir(format!("{dir}.renamed")).map_err(name)?;
            }
            Ok("ok".into())
        }
        "exists" => Ok(client.exists(words[1]).to_string()),
        "list" => {
            let names = client.read_dir(words[1]).map_err(name)?;
            Ok(names.iter().map(|e| e.name().to_string_lossy().into_owned()).collect::<Vec<_>>().join(" "))
        }
        "fork" if words.contains(&"idle") => Ok(crate::fork::begin_idle().to_string()),
        "fork" => Ok(crate::fork::begin_client(client, files).to_string()),
        "wait" => Ok(crate::fork::wait(number(1) as i32).to_string()),
        other => panic!("{other}"),
    }
}

fn told(events: &[Event]) -> String {
    events.iter().fold("events".to_string(), |told, event| format!("{told} {event}"))
}

/// Bytes in short: `3x7 2x0` for three sevens and two zeros.
fn runs(bytes: &[u8]) -> String {
    bytes.chunk_by(|a, b| a == b).map(|run| format!("{}x{}", run.len(), run[0])).collect::<Vec<_>>().join(" ")
}
