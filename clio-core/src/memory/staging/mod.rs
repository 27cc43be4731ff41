//! Staging records: which of a client's page memory is dirty, said in memory that outlives the client.
//!
//! A client whose page memory is shared with a daemon keeps a record for each folio with data that isn't at its target
//! yet: of which object, where in the shared memory its pieces lie, which blocks, and which bytes of blocks that were
//! written in part. When the client is killed, the daemon writes out what the records name, as far as the client's write
//! locks cover it, and only then gives the locks to others: a write that has returned survives its process.
//!
//! The client changes a record under the folio's mutex, so there is one writer. It may die between any two stores. So the
//! order of stores is this: bytes are in their place before the record names them; a record stops to name bytes before
//! their memory is used for anything else; a block is named dirty after its pieces and ranges are; and a range grows in
//! one store. What a record says is then at each moment all that was written and acknowledged, and nothing that isn't the
//! client's to write. Nothing in a record is trusted: [`read`] copies it once, and checks what it copied.

mod layout;
mod reader;
mod table;

pub(crate) use layout::SEGMENT_BLOCKS;
pub use layout::{MAX_RANGES, RECORD_WORDS};
pub use reader::{StagedFolio, StagedRun, decode, read};
pub use table::{RecordIndex, StagingTable};

#[cfg(all(test, not(clio_loom)))]
pub(crate) mod tests;
