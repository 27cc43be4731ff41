//! What a process of the coherence matrix does to the file: its part, with a look at the file now and then.

use crate::history::{Event, SLOT, What, now};
use crate::rng::Rng;
use clio::{Error, File};

/// Slots that are written and read: beyond a stripe unit of the test's files, so that both stripes are met.
const SLOTS: u64 = 48;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Reader,
    Writer,
    Appender,
    Truncater,
    /// Writes, then propagates; synchronizes, then reads.
    Lazy,
    /// Writes and reads past the cache.
    Direct,
}

impl Role {
    pub const ALL: [Role; 6] = [Role::Reader, Role::Writer, Role::Appender, Role::Truncater, Role::Lazy, Role::Direct];

    pub fn parse(name: &str) -> Role {
        Role::ALL.into_iter().find(|role| format!("{role:?}") == name).unwrap_or_else(|| panic!("no role: {name}"))
    }

    /// How such a process opens the file.
    pub fn options(self) -> &'static str {
        match self {
            Role::Appender => " append",
            Role::Lazy => " lazy",
            Role::Direct => " direct",
            Role::Reader | Role::Writer | Role::Truncater => "",
        }
    }
}

/// A process in its role.
struct Player<'a> {
    file: &'a File,
    role: Role,
    rng: Rng,
    events: Vec<Event>,
}

/// Does `count` things of a role; tells what was done, an event each. Stamps are `first_stamp` and those after.
///
/// # Errors
/// Those of the file; `EIO` as text where what it read was in no state that a file of slots can be in.
pub fn play(file: &File, role: Role, seed: u64, count: u64, first_stamp: u64) -> Result<Vec<Event>, String> {
    let mut player = Player { file, role, rng: Rng::new(seed), events: Vec::new() };
    for n in 0..count {
        let slot = player.rng.below(SLOTS);
        match n % 8 {
            3 | 7 => player.read(slot)?,
            5 => player.size()?,
            _ => player.part(slot, first_stamp + n)?,
        }
    }
    Ok(player.events)
}

/// All of the file, as a process sees it now.
///
/// # Errors
/// As [`play`].
pub fn look(file: &File) -> Result<Vec<Event>, String> {
    // Only a lazy file has anything to synchronize.
    let mut player = Player { file, role: Role::Lazy, rng: Rng::new(0), events: Vec::new() };
    player.size()?;
    let Some(Event { what: What::Size { slots }, .. }) = player.events.first().copied() else { return Ok(vec![]) };
    (0..slots).try_for_each(|slot| player.read(slot))?;
    Ok(player.events)
}

fn text(e: Error) -> String {
    format!("failed: {e}")
}

impl Player<'_> {
    fn part(&mut self, slot: u64, stamp: u64) -> Result<(), String> {
        match self.role {
            Role::Reader => self.read(slot),
            Role::Writer | Role::Direct => self.write(slot, stamp),
            Role::Lazy => self.write_lazily(slot, stamp),
            Role::Appender => self.append(stamp),
            Role::Truncater => self.truncate(slot + SLOTS / 4),
        }
    }

    fn done(&mut self, start: u64, what: What) {
        self.events.push(Event { start, end: now(), what });
    }

    fn write(&mut self, slot: u64, stamp: u64) -> Result<(), String> {
        let start = now();
        self.file.write_all_at(&filled(stamp), slot * SLOT).map_err(text)?;
        self.done(start, What::Wrote { slot, stamp });
        Ok(())
    }

    /// Others may see it from when it is propagated, and not before.
    fn write_lazily(&mut self, slot: u64, stamp: u64) -> Result<(), String> {
        self.file.write_all_at(&filled(stamp), slot * SLOT).map_err(text)?;
        let whole = self.rng.below(2) == 0;
        let start = now();
        let (at, len) = if whole { (0, 0) } else { (slot * SLOT, SLOT) };
        self.file.lazyio_propagate(at, len).map_err(text)?;
        self.done(start, What::Wrote { slot, stamp });
        Ok(())
    }

    fn append(&mut self, stamp: u64) -> Result<(), String> {
        let start = now();
        let at = self.file.append(&filled(stamp)).map_err(text)?;
        if !at.is_multiple_of(SLOT) {
            return Err(format!("a record went to {at}, in the middle of others"));
        }
        self.done(start, What::Appended { slot: at / SLOT, stamp });
        Ok(())
    }

    fn truncate(&mut self, slots: u64) -> Result<(), String> {
        let start = now();
        self.file.set_len(slots * SLOT).map_err(text)?;
        self.done(start, What::Cut { slots });
        Ok(())
    }

    fn size(&mut self) -> Result<(), String> {
        let start = now();
        let size = self.file.metadata().map_err(text)?.len();
        if !size.is_multiple_of(SLOT) {
            return Err(format!("the size is {size}"));
        }
        self.done(start, What::Size { slots: size / SLOT });
        Ok(())
    }

    fn read(&mut self, slot: u64) -> Result<(), String> {
        let start = now();
        if self.role == Role::Lazy {
            self.file.lazyio_synchronize(slot * SLOT, SLOT).map_err(text)?;
        }
        let mut buf = [0; SLOT as usize];
        let n = self.file.read_at(&mut buf, slot * SLOT).map_err(text)?;
        let stamp = match n as u64 {
            0 => None,
            SLOT => Some(u64::from_le_bytes(*buf.first_chunk().expect("8 bytes"))),
            n => return Err(format!("slot {slot}: {n} bytes")),
        };
        if buf[..n] != filled(stamp.unwrap_or(0))[..n] {
            return Err(format!("slot {slot} is torn"));
        }
        self.done(start, What::Read { slot, stamp });
        Ok(())
    }
}

/// A slot's bytes: its stamp, again and again.
pub fn filled(stamp: u64) -> Vec<u8> {
    stamp.to_le_bytes().repeat(SLOT as usize / 8)
}
