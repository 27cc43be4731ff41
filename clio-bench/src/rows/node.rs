//! A store that a daemon serves, against the same one in the process, and against the file system. The daemon is a thread
//! of this process: what separates it from its clients, sockets and shared memory, is the same.

use super::names::{churn, churn_plain, repeat};
use super::{LARGE, SMALL, client_in, fresh};
use crate::measure::{Figure, Report, time};
use crate::places;
use crate::sys::ofd_locked;
use anyhow::{Result, anyhow};
use clio::node::{Service, ServiceOptions, Stop};
use clio::{Client, Config};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

const NOTE: &str = "daemon in a thread";

pub fn run(report: &mut Report) -> Result<()> {
    stream(report)?;
    names(report)?;
    ping_pong(report)
}

/// A store on a folder, served until this goes.
struct Served {
    client: Option<Client>,
    stop: Stop,
    thread: Option<JoinHandle<clio::Result<()>>>,
}

impl Served {
    fn new(folder: &Path) -> Result<Self> {
        let socket = folder.join("socket");
        let options = ServiceOptions { socket: Some(socket.clone()), idle_exit: None };
        let store = format!("dir:{}?targets=1", folder.join("served").display());
        let service = Service::open(&store, &Config::default(), &options)?;
        let stop = service.stop();
        let thread = Some(std::thread::spawn(move || service.run()));
        let client = Some(Client::open(&format!("node:{}", socket.display()))?);
        Ok(Self { client, stop, thread })
    }

    fn client(&self) -> Result<&Client> {
        self.client.as_ref().ok_or_else(|| anyhow!("the client is gone"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.client = None;
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A stream, until the target has it all.
fn stream(report: &mut Report) -> Result<()> {
    let total: u64 = if report.quick { 64 << 20 } else { 256 << 20 };
    let data = vec![0x5Au8; LARGE];
    let dir = places::tmpfs()?;
    let served = Served::new(dir.path())?;
    let embedded = client_in(&dir.path().join("embedded"), 1, 512)?;
    let run = |client: &Client| -> Result<Duration> {
        let file = fresh(client, "/stream", 1)?;
        let took = time(|| {
            for at in (0..total).step_by(LARGE) {
                file.write_at(&data, at)?;
            }
            Ok(file.flush_data()?)
        })?;
        drop(file);
        client.remove_file("/stream")?;
        Ok(took)
    };
    let figure = Figure::bytes("node: stream 1M with drain, tmpfs", "in the process", Some(0.85), total).note(NOTE);
    report.pair(figure, || run(served.client()?), || run(&embedded))
}

fn names(report: &mut Report) -> Result<()> {
    let files: u64 = if report.quick { 300 } else { 2_000 };
    for (rival, dir, goal) in [("ext4", places::disk()?, Some(0.8)), ("tmpfs", places::tmpfs()?, None)] {
        let served = Served::new(dir.path())?;
        let client = served.client()?;
        let plain = dir.path().join("plain");
        fs::create_dir(&plain)?;
        let figure = Figure::ops("node: create and unlink, empty files", rival, goal, files).note(NOTE);
        report.pair(figure, || churn(client, "", files), || churn_plain(&plain, files))?;
        drop(client.create("/one")?);
        fs::write(plain.join("one"), b"")?;
        let ours = || repeat(files, || client.metadata("/one").map(drop));
        report.pair(Figure::ops("node: stat", rival, None, files).note(NOTE), ours, || {
            repeat(files, || fs::metadata(plain.join("one")).map(drop))
        })?;
    }
    Ok(())
}

/// Two clients write 4 KiB and read what the other has written, in turn.
fn ping_pong(report: &mut Report) -> Result<()> {
    let turns: u64 = if report.quick { 200 } else { 2_000 };
    let dir = places::tmpfs()?;
    let served = Served::new(dir.path())?;
    let first = served.client()?;
    let second = first.second_client()?;
    let here = fresh(first, "/ball", 1)?;
    let there = second.open_with("/ball", clio::OpenOptions::new().read(true).write(true))?;
    let (data, mut got) = (vec![7u8; SMALL], vec![0u8; SMALL]);
    let ours = || {
        time(|| {
            for turn in 0..turns {
                let (writer, reader) = if turn % 2 == 0 { (&here, &there) } else { (&there, &here) };
                writer.write_at(&data, 0)?;
                reader.read_at(&mut got, 0)?;
            }
            Ok(())
        })
    };
    let open = || fs::File::options().create(true).read(true).write(true).truncate(false).open(dir.path().join("ball"));
    let (plain, other) = (open()?, open()?);
    let mut took = vec![0u8; SMALL];
    let figure = Figure::ops("node: ping-pong of 4K between two clients", "OFD lock, pwrite, pread", Some(0.2), turns);
    report.pair(figure.note("a turn is a write and the other's read"), ours, || {
        time(|| {
            for turn in 0..turns {
                let (writer, reader) = if turn % 2 == 0 { (&plain, &other) } else { (&other, &plain) };
                ofd_locked(writer, || writer.write_all_at(&data, 0))?;
                ofd_locked(reader, || reader.read_exact_at(&mut took, 0))?;
            }
            Ok(())
        })
    })
}
