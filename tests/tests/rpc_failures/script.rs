//! A script of operations that sends every kind of request, and what its file may hold when some of them fail.

use clio::{Client, Errno, Error, File, OpenOptions, Result};
use clio_tests::{narrow, pattern, read_write};

/// No file of the script is larger, in bytes.
const MOST: usize = 300_000;

/// What the file held or may have come to hold, oldest first; the last is what it holds if all went well.
struct Model {
    versions: Vec<Vec<u8>>,
}

impl Model {
    fn last(&self) -> &Vec<u8> {
        self.versions.last().expect("never empty")
    }

    fn write(&mut self, at: usize, data: &[u8]) {
        let mut next = self.last().clone();
        next.resize(next.len().max(at + data.len()), 0);
        next[at..at + data.len()].copy_from_slice(data);
        self.versions.push(next);
    }

    fn zero(&mut self, at: usize, len: usize) {
        let mut next = self.last().clone();
        let end = (at + len).min(next.len());
        next[at..end].fill(0);
        self.versions.push(next);
    }

    fn resize(&mut self, len: usize) {
        let mut next = self.last().clone();
        next.resize(len, 0);
        self.versions.push(next);
    }

    /// Whether each byte is of some version; what a version doesn't reach reads as zero in it.
    fn allows(&self, got: &[u8]) -> std::result::Result<(), usize> {
        let lens = self.versions.iter().map(Vec::len);
        let (least, most) = (lens.clone().min().unwrap_or(0), lens.max().unwrap_or(0));
        if got.len() < least || got.len() > most {
            return Err(got.len());
        }
        let ok = |i: usize| self.versions.iter().any(|v| v.get(i).copied().unwrap_or(0) == got[i]);
        let last = self.last();
        (0..got.len()).find(|i| last.get(*i) != Some(&got[*i]) && !ok(*i)).map_or(Ok(()), Err)
    }
}

/// Says of an error whether it may come now.
pub(crate) type Excuse<'a> = &'a dyn Fn(Errno) -> bool;

/// One run of the script.
pub(crate) struct Script<'a> {
    a: Client,
    b: Client,
    /// Whether something was made to fail that somebody may hear of.
    failing: &'a dyn Fn() -> bool,
    excuse: Excuse<'a>,
    model: Model,
    told: Vec<String>,
    files: Vec<File>,
}

fn read_all(file: &File) -> Result<Vec<u8>> {
    let mut all = vec![0xAA; MOST];
    let mut done = 0;
    loop {
        match file.read_at(&mut all[done..], done as u64)? {
            0 => break,
            n => done += n,
        }
    }
    all.truncate(done);
    Ok(all)
}

impl<'a> Script<'a> {
    pub(crate) fn new(clients: [Client; 2], failing: &'a dyn Fn() -> bool, excuse: Excuse<'a>) -> Self {
        let [a, b] = clients;
        let model = Model { versions: vec![Vec::new()] };
        Self { a, b, failing, excuse, model, told: Vec::new(), files: Vec::new() }
    }

    /// The result of a step; an error must have been injected.
    fn step<T>(&mut self, what: &str, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(e) => {
                self.hear(what, &e);
                None
            }
        }
    }

    fn hear(&mut self, what: &str, e: &Error) {
        assert!((self.failing)() && (self.excuse)(e.errno()), "{what}: {e}; before: {:?}", self.told);
        self.told.push(format!("{what}: {e}"));
    }

    /// What was read must be there.
    fn look(&mut self, what: &str, got: Result<Vec<u8>>) {
        let Some(got) = self.step(what, got) else { return };
        if got == *self.model.last() {
            return;
        }
        if !(self.failing)() {
            let last = self.model.last();
            let bad = (0..got.len()).find(|i| last.get(*i) != Some(&got[*i]));
            assert_eq!((got.len(), bad), (last.len(), None), "{what}: length, and first wrong byte");
        } else if let Err(at) = self.model.allows(&got) {
            panic!("{what}: byte {at} of {} was never there; told: {:?}", got.len(), self.told);
        }
    }

    /// All up to now is durable.
    fn synced(&mut self, what: &str, result: Result<()>) {
        let ok = self.step(what, result).is_some();
        if ok && !(self.failing)() {
            let done = self.model.versions.len() - 1;
            self.model.versions.drain(..done);
        }
    }

    fn write(&mut self, what: &str, file: &File, seed: u64, at: u64, len: usize) {
        let data = pattern(seed, at, len);
        self.model.write(at as usize, &data);
        self.step(what, file.write_all_at(&data, at));
    }

    fn open(&mut self, client: &Client, options: OpenOptions) -> Option<File> {
        let opened = client.open_with("/f", options);
        let file = self.step("open", opened)?;
        self.files.push(file.clone());
        Some(file)
    }

    fn append(&mut self, file: &File, seed: u64, len: usize) {
        let data = pattern(seed, 0, len);
        let known: Vec<_> = self.model.versions.iter().map(Vec::len).collect();
        match file.append(&data) {
            Ok(at) => self.model.write(at as usize, &data),
            // Wherever the end was: some of it may be there.
            Err(e) => {
                known.into_iter().for_each(|end| self.model.write(end, &data));
                self.hear("append", &e);
            }
        }
    }

    /// Runs all operations. Returns early if the file can't even be opened.
    pub(crate) fn run(&mut self) -> Option<()> {
        let (a, b) = (self.a.clone(), self.b.clone());
        let file = self.open(&a, read_write().layout(narrow(3)))?;
        self.write("write", &file, 1, 0, 200_000);
        self.synced("fsync", file.sync_all());
        self.write("overwrite", &file, 2, 50_000, 10_000);
        self.write("extend", &file, 3, 200_000, 20_001);
        let len = b.metadata("/f").map(|m| m.len());
        if let Some(len) = self.step("stat by another", len) {
            let lens: Vec<_> = self.model.versions.iter().map(|v| v.len() as u64).collect();
            let within = lens.iter().min() <= Some(&len) && Some(&len) <= lens.iter().max();
            let known = if (self.failing)() { within } else { lens.last() == Some(&len) };
            assert!(known, "size {len}, known {lens:?}");
        }
        let other = self.open(&b, read_write())?;
        self.look("read by another", read_all(&other));
        self.step("drop", a.drop_caches());
        self.look("read cold", read_all(&file));
        self.append(&file, 4, 70_001);
        self.cut(&file, 150_000);
        self.write("write after cut", &file, 5, 140_000, 30_000);
        self.cut(&file, 230_000);
        self.model.zero(65_636, 70_000);
        self.step("punch", file.punch_hole(65_636, 70_000));
        self.look("read after punch", read_all(&file));
        let direct = self.open(&a, read_write().direct(true))?;
        self.write("direct write", &direct, 6, 120_000, 30_001);
        self.look("direct read", read_all(&direct));
        match file.seek_data(70_000) {
            // If nothing could be written, there is nothing.
            Err(e) if e.errno() == Errno::ENXIO && (self.failing)() => {}
            sought => drop(self.step("seek", sought)),
        }
        self.write("write by another", &other, 7, 100_000, 1_000);
        self.look("read what another wrote", read_all(&file));
        self.synced("fdatasync by another", other.sync_data());
        self.synced("fdatasync", file.sync_data());
        self.remove(&a);
        Some(())
    }

    fn cut(&mut self, file: &File, size: usize) {
        self.model.resize(size);
        self.step("truncate", file.set_len(size as u64));
    }

    fn remove(&mut self, client: &Client) -> Option<()> {
        let opened = client.open_with("/g", read_write().layout(narrow(2)));
        let file = self.step("open", opened)?;
        self.step("write", file.write_all_at(&[1; 100_000], 0));
        self.step("fsync", file.sync_all());
        self.step("close", file.close());
        self.step("unlink", client.remove_file("/g"))
    }

    /// The faults are over: errors that are owed are told, once; both clients see the same, and all works again.
    pub(crate) fn finish(mut self) -> [Client; 2] {
        for file in std::mem::take(&mut self.files) {
            let owed = file.sync_all();
            self.step("last fsync", owed);
            file.sync_all().expect("an error is told once");
            file.close().expect("an error is told once");
        }
        let (a, b) = (self.a.clone(), self.b.clone());
        let Ok(file) = a.open_file("/f") else { return self.afresh() };
        let seen = read_all(&file).expect("read");
        drop(file);
        self.look("in the end", Ok(seen.clone()));
        assert!(!self.told.is_empty() || seen == *self.model.last(), "data was lost and nobody was told");
        for client in [&b, &a] {
            assert!(clio_tests::content(client, "/f") == seen, "the clients see different contents");
            client.drop_caches().expect("drop");
            assert!(clio_tests::content(client, "/f") == seen, "the stored content is another");
        }
        self.afresh()
    }

    fn afresh(self) -> [Client; 2] {
        let Self { a, b, .. } = self;
        for (path, writer, reader) in [("/f", &a, &b), ("/new", &b, &a)] {
            let file = writer.open_with(path, read_write().truncate(true).layout(narrow(3))).expect("open");
            file.write_all_at(&pattern(9, 0, 150_000), 0).expect("write");
            file.sync_all().expect("fsync");
            assert!(clio_tests::content(reader, path) == pattern(9, 0, 150_000));
            file.close().expect("close");
        }
        [a, b]
    }
}
