//! The IO state machine.

use std::fmt;

/// State of an IO.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[doc(alias = "cl_io_state")]
pub enum IoState {
    /// Made, nothing done.
    Init,
    /// The scope of an iteration is known.
    IterStarted,
    /// All locks of the iteration are held.
    Locked,
    /// Work is going on.
    Going,
    /// All work of the iteration is finished.
    IoFinished,
    /// The locks are released.
    Unlocked,
    /// The iteration is over.
    IterEnded,
    /// The IO is over.
    Fini,
}

impl IoState {
    /// All states.
    pub const ALL: [IoState; 8] = [
        IoState::Init,
        IoState::IterStarted,
        IoState::Locked,
        IoState::Going,
        IoState::IoFinished,
        IoState::Unlocked,
        IoState::IterEnded,
        IoState::Fini,
    ];

    /// Whether `self` → `to` is a transition, and if not, an error that names both.
    ///
    /// # Errors
    /// [`IllegalIoTransition`].
    pub fn transition(self, to: IoState) -> Result<(), IllegalIoTransition> {
        use IoState::*;
        match (self, to) {
            (Init | IterEnded, IterStarted)
            | (IterStarted, Locked | IterEnded)
            | (Locked, Going)
            | (Going, IoFinished)
            | (IoFinished, Unlocked)
            | (Unlocked, IterEnded)
            | (Init | IterEnded, Fini) => Ok(()),
            _ => Err(IllegalIoTransition { from: self, to }),
        }
    }
}

/// A transition that the table doesn't have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IllegalIoTransition {
    /// State the IO is in.
    pub from: IoState,
    /// State that was asked for.
    pub to: IoState,
}

impl fmt::Display for IllegalIoTransition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "illegal IO transition {:?} -> {:?}", self.from, self.to)
    }
}

impl std::error::Error for IllegalIoTransition {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let mut table = String::new();
        for from in IoState::ALL {
            let to: Vec<_> = IoState::ALL.into_iter().filter(|to| from.transition(*to).is_ok()).collect();
            table += &format!("{from:?} -> {to:?}\n");
        }
        insta::assert_snapshot!(table, @r"
        Init -> [IterStarted, Fini]
        IterStarted -> [Locked, IterEnded]
        Locked -> [Going]
        Going -> [IoFinished]
        IoFinished -> [Unlocked]
        Unlocked -> [IterEnded]
        IterEnded -> [IterStarted, Fini]
        Fini -> []
        ");
    }
}
