//! The transfer state machine.

use crate::error::{Errno, Error};
use std::fmt;

/// State of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[doc(alias = "cl_req_state")]
pub enum ReqState {
    /// Pages are being collected.
    Created,
    /// Attributes are filled in.
    Prepared,
    /// With the target.
    InFlight,
    /// Over.
    Completed,
}

impl ReqState {
    /// All states.
    pub const ALL: [ReqState; 4] = [ReqState::Created, ReqState::Prepared, ReqState::InFlight, ReqState::Completed];

    /// Whether `self` → `to` is a transition.
    ///
    /// # Errors
    /// [`IllegalReqTransition`], with both states.
    pub fn transition(self, to: ReqState) -> Result<(), IllegalReqTransition> {
        use ReqState::*;
        match (self, to) {
            (Created, Prepared) | (Prepared, InFlight) | (Created | Prepared | InFlight, Completed) => Ok(()),
            _ => Err(IllegalReqTransition { from: self, to }),
        }
    }
}

/// A transition that the table doesn't have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IllegalReqTransition {
    /// State the transfer is in.
    pub from: ReqState,
    /// State that was asked for.
    pub to: ReqState,
}

impl fmt::Display for IllegalReqTransition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "illegal transfer transition {:?} -> {:?}", self.from, self.to)
    }
}

impl std::error::Error for IllegalReqTransition {}

impl From<IllegalReqTransition> for Error {
    fn from(e: IllegalReqTransition) -> Self {
        Error::new(Errno::EPROTO, "transfer", e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let mut table = String::new();
        for from in ReqState::ALL {
            let to: Vec<_> = ReqState::ALL.into_iter().filter(|to| from.transition(*to).is_ok()).collect();
            table += &format!("{from:?} -> {to:?}\n");
        }
        insta::assert_snapshot!(table, @r"
        Created -> [Prepared, Completed]
        Prepared -> [InFlight, Completed]
        InFlight -> [Completed]
        Completed -> []
        ");
    }
}
