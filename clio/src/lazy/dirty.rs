//! What a lazy handle has written and not propagated.

use std::collections::BTreeMap;
use std::ops::Range;

/// Longest run, in bytes: what is written in one go.
const RUN_MAX: usize = 1 << 20;

/// Runs of bytes by their offsets. They don't overlap.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    runs: BTreeMap<u64, Vec<u8>>,
    bytes: usize,
}

impl Dirty {
    /// Bytes in all runs.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where the last run ends; 0 without one.
    pub(super) fn end(&self) -> u64 {
        self.runs.last_key_value().map_or(0, |(at, run)| at + run.len() as u64)
    }

    /// `bytes` are what is at `offset` from now on.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        if let Some((at, run)) = self.runs.range_mut(..=offset).next_back()
            && end <= at + run.len() as u64
        {
            run[(offset - at) as usize..][..bytes.len()].copy_from_slice(bytes);
            return;
        }
        self.cut_out(offset..end);
        self.bytes += bytes.len();
        if let Some((at, run)) = self.runs.range_mut(..offset).next_back()
            && at + run.len() as u64 == offset
            && run.len() + bytes.len() <= RUN_MAX
        {
            run.extend_from_slice(bytes);
            return;
        }
        for (i, piece) in bytes.chunks(RUN_MAX).enumerate() {
            self.runs.insert(offset + (i * RUN_MAX) as u64, piece.to_vec());
        }
    }

    /// Puts what it has over what is in `buf`, the bytes from `offset` on.
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) {
        let range = offset..offset + buf.len() as u64;
        for (at, bytes) in self.within(range) {
            buf[(at - offset) as usize..][..bytes.len()].copy_from_slice(bytes);
        }
    }

    /// The parts of runs that lie in `range`.
    pub(super) fn within(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &[u8])> {
        let from = self.runs.range(..=range.start).next_back().map_or(range.start, |(at, _)| *at);
        self.runs.range(from..range.end.max(from)).filter_map(move |(at, run)| {
            let (start, end) = (range.start.max(*at), range.end.min(at + run.len() as u64));
            (start < end).then(|| (start, &run[(start - at) as usize..(end - at) as usize]))
        })
    }

    /// Takes the first part of a run that lies in `range` away.
    pub(super) fn take(&mut self, range: &Range<u64>) -> Option<(u64, Vec<u8>)> {
        let (at, len) = self.first_within(range)?;
        let bytes = self.cut_out(at..at + len as u64);
        Some((at, bytes))
    }

    fn first_within(&self, range: &Range<u64>) -> Option<(u64, usize)> {
        self.within(range.clone()).next().map(|(at, bytes)| (at, bytes.len()))
    }

    /// Takes all that lies in `range` away. Returns the part of the first run that was cut.
    fn cut_out(&mut self, range: Range<u64>) -> Vec<u8> {
        let mut first = None;
        while let Some((at, part)) = self.first_within(&range) {
            let Some((&start, _)) = self.runs.range(..=at).next_back() else { break };
            let Some(mut run) = self.runs.remove(&start) else { break };
            let skip = (at - start) as usize;
            let rest = run.split_off(skip + part);
            let cut = run.split_off(skip);
            if !run.is_empty() {
                self.runs.insert(start, run);
            }
            if !rest.is_empty() {
                self.runs.insert(at + part as u64, rest);
            }
            self.bytes -= part;
            first.get_or_insert(cut);
        }
        first.unwrap_or_default()
    }
}
