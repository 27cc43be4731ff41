//! Which replies are kept, for each client.

use crate::kv::{Batch, Kv, Space, View, prefix_end};
use crate::namespace::OpId;
use crate::record::Reply;
use clio_core::units::ClientId;
use clio_core::{Errno, Error, Result};
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use crate::limits::REPLIES_PER_CLIENT;

/// The xids whose replies the store holds; the replies themselves stay in the store.
#[derive(Debug, Default)]
pub(crate) struct ReplyTable(HashMap<ClientId, BTreeSet<u64>>);

fn key(id: OpId) -> Vec<u8> {
    [id.client.0.to_be_bytes(), id.xid.to_be_bytes()].concat()
}

fn split_key(key: &[u8]) -> Option<OpId> {
    let (client, xid) = key.split_first_chunk()?;
    let client = ClientId(u64::from_be_bytes(*client));
    Some(OpId { client, xid: u64::from_be_bytes(xid.try_into().ok()?) })
}

impl ReplyTable {
    /// What the store holds.
    pub(crate) fn load(view: &dyn View) -> Result<Self> {
        let mut table = Self::default();
        view.scan(Space::Replies, &[], None, &mut |k, _| {
            if let Some(id) = split_key(k) {
                table.0.entry(id.client).or_default().insert(id.xid);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(table)
    }

    /// The reply of an earlier run of the operation `id`; `None` if it didn't run, or failed and so changed nothing.
    ///
    /// # Errors
    /// `ESTALE`: older than all replies kept, so that nobody can tell.
    pub(crate) fn find(&self, kv: &dyn Kv, id: OpId) -> Result<Option<Reply>> {
        let Some(kept) = self.0.get(&id.client) else { return Ok(None) };
        if kept.contains(&id.xid) {
            return match kv.view().get(Space::Replies, &key(id))? {
                Some(record) => Reply::decode(&record).map(Some),
                None => Ok(None),
            };
        }
        if kept.len() >= REPLIES_PER_CLIENT && kept.first().is_some_and(|oldest| id.xid < *oldest) {
            return Err(Error::new(
                Errno::ESTALE,
                "resend",
                format!("the operation is older than the last {REPLIES_PER_CLIENT} of its client; its fate is unknown"),
            ));
        }
        Ok(None)
    }

    /// Adds to `batch` what keeps `reply`, and drops the oldest one beyond the bound.
    pub(crate) fn stage(&self, batch: &mut Batch, id: OpId, reply: &Reply) {
        batch.put(Space::Replies, key(id), reply.encode());
        if let Some(oldest) = self.surplus(id.client) {
            batch.remove(Space::Replies, key(OpId { xid: oldest, ..id }));
        }
    }

    /// The batch of [`ReplyTable::stage`] was committed.
    pub(crate) fn committed(&mut self, id: OpId) {
        let surplus = self.surplus(id.client);
        let kept = self.0.entry(id.client).or_default();
        kept.insert(id.xid);
        if let Some(oldest) = surplus {
            kept.remove(&oldest);
        }
    }

    fn surplus(&self, client: ClientId) -> Option<u64> {
        let kept = self.0.get(&client)?;
        if kept.len() < REPLIES_PER_CLIENT { None } else { kept.first().copied() }
    }

    /// The clients that replies are kept for.
    pub(crate) fn clients(&self) -> impl Iterator<Item = ClientId> {
        self.0.keys().copied()
    }

    /// Drops all replies of `client`.
    pub(crate) fn forget(&mut self, kv: &dyn Kv, client: ClientId) -> Result<()> {
        if !self.0.contains_key(&client) {
            return Ok(());
        }
        let prefix = client.0.to_be_bytes();
        let mut batch = Batch::default();
        kv.view().scan(Space::Replies, &prefix, prefix_end(&prefix).as_deref(), &mut |k, _| {
            batch.remove(Space::Replies, k);
            Ok(ControlFlow::Continue(()))
        })?;
        kv.commit(batch)?;
        self.0.remove(&client);
        Ok(())
    }
}
