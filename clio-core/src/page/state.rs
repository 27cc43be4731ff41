//! The page state machine: one transition table, for a folio's blocks as for the folio.

use std::fmt;

/// State of a page, or of one block of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[doc(alias = "cl_page_state")]
pub enum PageState {
    /// In the cache, nobody works on it.
    Cached,
    /// An IO has exclusive use of it.
    Owned,
    /// Being read from its target.
    PageIn,
    /// Being written to its target.
    PageOut,
    /// On its way out; never found again.
    Freeing,
}

impl PageState {
    /// All states.
    pub const ALL: [PageState; 5] =
        [PageState::Cached, PageState::Owned, PageState::PageIn, PageState::PageOut, PageState::Freeing];

    /// The operation that moves a page from `self` to `to`, or an error that names both.
    pub fn transition(self, to: PageState) -> Result<&'static str, IllegalTransition> {
        use PageState::*;
        Ok(match (self, to) {
            (Cached, Owned) => "own, assume",
            (Cached, PageOut) => "make_ready",
            (Cached, Freeing) => "delete",
            (Owned, Cached) => "disown, unassume",
            (Owned, PageIn) => "prep for read",
            (Owned, PageOut) => "prep for write",
            (Owned, Freeing) => "delete",
            (PageIn | PageOut, Cached) => "completion",
            _ => return Err(IllegalTransition { from: self, to }),
        })
    }
}

/// A transition that the table doesn't have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IllegalTransition {
    /// State the page is in.
    pub from: PageState,
    /// State that was asked for.
    pub to: PageState,
}

impl fmt::Display for IllegalTransition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "illegal page transition {:?} -> {:?}", self.from, self.to)
    }
}

impl std::error::Error for IllegalTransition {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let mut table = String::new();
        for from in PageState::ALL {
            for to in PageState::ALL {
                match from.transition(to) {
                    Ok(op) => table += &format!("{from:?} -> {to:?}: {op}\n"),
                    Err(e) => assert_eq!((e.from, e.to), (from, to)),
                }
            }
        }
        insta::assert_snapshot!(table, @r"
        Cached -> Owned: own, assume
        Cached -> PageOut: make_ready
        Cached -> Freeing: delete
        Owned -> Cached: disown, unassume
        Owned -> PageIn: prep for read
        Owned -> PageOut: prep for write
        Owned -> Freeing: delete
        PageIn -> Cached: completion
        PageOut -> Cached: completion
        ");
    }
}
