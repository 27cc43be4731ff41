//! What processes did to one file of slots, and whether one order of it all explains what each of them saw.
//!
//! A file is a row of slots, each filled with one stamp, or with zeros. Every operation took effect at one moment between
//! its start and its end: that is what the library promises, and what [`explain`] looks for such moments for.

use crate::rng::Rng;
use std::collections::HashSet;
use std::fmt;

/// Bytes of a slot: two of them share a page, and stripes hold a whole number of them.
pub const SLOT: u64 = 2048;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A slot was given a stamp; the file grew up to there if it was shorter.
    Wrote { slot: u64, stamp: u64 },
    /// The slot at the end was.
    Appended { slot: u64, stamp: u64 },
    /// The file was cut, or grown, to so many slots.
    Cut { slots: u64 },
    /// A slot had this stamp, or lay beyond the end.
    Read { slot: u64, stamp: Option<u64> },
    /// The file had so many slots.
    Size { slots: u64 },
}

/// An operation, from and to so many nanoseconds of the machine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub start: u64,
    pub end: u64,
    pub what: What,
}

/// The clock that all processes of the machine share, in nanoseconds.
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.start, self.end)?;
        match self.what {
            What::Wrote { slot, stamp } => write!(f, "w:{slot}:{stamp}"),
            What::Appended { slot, stamp } => write!(f, "a:{slot}:{stamp}"),
            What::Cut { slots } => write!(f, "c:{slots}"),
            What::Read { slot, stamp: Some(stamp) } => write!(f, "r:{slot}:{stamp}"),
            What::Read { slot, stamp: None } => write!(f, "r:{slot}"),
            What::Size { slots } => write!(f, "s:{slots}"),
        }
    }
}

impl Event {
    /// What [`Display`](fmt::Display) has written.
    pub fn parse(text: &str) -> Event {
        let words: Vec<&str> = text.split(':').collect();
        let number = |at: usize| words[at].parse().unwrap_or_else(|_| panic!("no event: {text}"));
        let what = match words[2] {
            "w" => What::Wrote { slot: number(3), stamp: number(4) },
            "a" => What::Appended { slot: number(3), stamp: number(4) },
            "c" => What::Cut { slots: number(3) },
            "r" => What::Read { slot: number(3), stamp: words.get(4).map(|_| number(4)) },
            "s" => What::Size { slots: number(3) },
            other => panic!("no event: {other}"),
        };
        Event { start: number(0), end: number(1), what }
    }
}

impl What {
    /// The file after this, if this can happen to it.
    fn after(self, file: &[u64]) -> Option<Vec<u64>> {
        let same = |fits: bool| fits.then(|| file.to_vec());
        let mut file_after = file.to_vec();
        match self {
            What::Read { slot, stamp } => return same(file.get(slot as usize).copied() == stamp),
            What::Size { slots } => return same(file.len() as u64 == slots),
            What::Appended { slot, .. } if slot != file.len() as u64 => return None,
            What::Appended { stamp, .. } => file_after.push(stamp),
            What::Wrote { slot, stamp } => {
                file_after.resize(file.len().max(slot as usize + 1), 0);
                file_after[slot as usize] = stamp;
            }
            What::Cut { slots } => file_after.resize(slots as usize, 0),
        }
        Some(file_after)
    }
}

/// Whether some order explains what all processes did and saw, each of which did one thing after another. The file is
/// empty at first.
///
/// # Errors
/// Where the order that explains most gets stuck.
pub fn explain(processes: &[Vec<Event>]) -> Result<(), String> {
    let mut seen = HashSet::new();
    let mut stack = vec![(vec![0usize; processes.len()], Vec::new())];
    let (mut furthest, mut stuck) = (0, String::new());
    while let Some((done, file)) = stack.pop() {
        let next = || processes.iter().zip(&done).map(|(events, at)| events.get(*at));
        let Some(first_end) = next().flatten().map(|event| event.end).min() else { return Ok(()) };
        let depth = done.iter().sum::<usize>();
        if depth >= furthest {
            furthest = depth;
            stuck = story(processes, &done, &file);
        }
        for (p, event) in next().enumerate() {
            let Some(event) = event.filter(|event| event.start <= first_end) else { continue };
            let Some(file) = event.what.after(&file) else { continue };
            let mut done = done.clone();
            done[p] += 1;
            if seen.insert((done.clone(), file.clone())) {
                stack.push((done, file));
            }
        }
    }
    Err(stuck)
}

/// What each process did last, of `done` events, and what doesn't fit after that.
fn story(processes: &[Vec<Event>], done: &[usize], file: &[u64]) -> String {
    let mut story = format!("the file could have {} slots then: {file:x?}", file.len());
    for (p, (events, done)) in processes.iter().zip(done).enumerate() {
        let line = |event: &Event| format!("\n    {event}");
        let before: String = events[done.saturating_sub(4)..*done].iter().map(line).collect();
        let after: String = events[*done..].iter().take(2).map(line).collect();
        story += &format!("\n  process {p}, before:{before}\n  process {p}, next:{after}");
    }
    story
}

/// One after another, in time, of one process.
fn in_turn(from: u64, whats: &[What]) -> Vec<Event> {
    whats.iter().zip(0..).map(|(what, i)| Event { start: from + 10 * i, end: from + 10 * i + 5, what: *what }).collect()
}

#[test]
fn the_checker_accepts_and_refuses() {
    use What::{Appended, Cut, Read, Size, Wrote};
    let write = |stamp| Wrote { slot: 1, stamp };
    let read = |stamp| Read { slot: 1, stamp };
    // Overlapping: either order. One after the other: the later one counts.
    let both = |from, seen: &[What]| explain(&[in_turn(0, &[write(1)]), in_turn(from, &[write(2)]), in_turn(50, seen)]);
    assert!(both(3, &[read(Some(1))]).is_ok() && both(3, &[read(Some(2))]).is_ok());
    assert!(both(10, &[read(Some(1))]).is_err(), "stale");
    assert!(both(10, &[read(Some(2))]).is_ok());
    assert!(both(3, &[read(Some(1)), read(Some(2))]).is_err(), "back and forth");
    assert!(both(3, &[read(None)]).is_err() && both(3, &[read(Some(3))]).is_err());
    assert!(both(3, &[Size { slots: 2 }, Read { slot: 0, stamp: Some(0) }]).is_ok());
    // A reader meets a value before its write began.
    assert!(explain(&[in_turn(20, &[write(1)]), in_turn(0, &[read(Some(1))])]).is_err());
    // Two appends to one place, one that left a gap, and one that a truncate has met.
    let append = |slot| Appended { slot, stamp: 7 };
    assert!(explain(&[in_turn(0, &[append(0)]), in_turn(1, &[append(0)])]).is_err());
    assert!(explain(&[in_turn(0, &[append(0)]), in_turn(1, &[append(2)])]).is_err());
    assert!(explain(&[in_turn(0, &[append(0), append(0)]), in_turn(8, &[Cut { slots: 0 }])]).is_ok());
    assert!(explain(&[in_turn(0, &[append(0), append(0)]), in_turn(30, &[Cut { slots: 0 }])]).is_err());
    // What a truncate took does not come back.
    let cut = [write(1), Cut { slots: 0 }, Cut { slots: 4 }];
    assert!(explain(&[in_turn(0, &cut), in_turn(50, &[read(Some(0))])]).is_ok());
    assert!(explain(&[in_turn(0, &cut), in_turn(50, &[read(Some(1))])]).is_err());
}

#[test]
fn an_event_is_read_as_it_is_written() {
    let mut rng = Rng::new(1);
    for _ in 0..100 {
        let (slot, stamp) = (rng.below(100), rng.below(1 << 40));
        let whats = [
            What::Wrote { slot, stamp },
            What::Appended { slot, stamp },
            What::Cut { slots: slot },
            What::Read { slot, stamp: Some(stamp) },
            What::Read { slot, stamp: None },
            What::Size { slots: slot },
        ];
        for event in in_turn(rng.below(1 << 50), &whats) {
            assert_eq!(Event::parse(&event.to_string()), event);
        }
    }
}
