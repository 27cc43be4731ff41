//! An embedded store: targets, namespace and the allocation of stripes, shared by all clients of this process.

mod folder;
mod header;
mod lock;
mod parts;
mod registry;
mod settings;
mod share;

pub use header::HEADER_FILE;
#[cfg(feature = "fuzz")]
pub use header::StoreHeader;
#[cfg(feature = "fuzz")]
pub use parts::Content as StoreParts;

use crate::client::ClientInner;
use crate::config::Config;
use crate::stats::LockCounts;
use crate::uri::StoreUri;
use clio_arena::Arena;
use clio_core::lockrank::{LockRank, RankedMutex};
use clio_core::memory::PageMemory;
use clio_core::sync::atomic::{AtomicU64, Ordering};
use clio_core::target::{Completion, Op, Reply, Target};
use clio_core::units::TargetIndex;
use clio_core::{Errno, Error, Result};
use clio_lov::layout::{Balanced, FileLayout, TargetSpace, Targets};
use clio_namespace::{Doomed, Names, Namespace, NewNode, OpCtx, UserNames};
use clio_node::client::{Connection, NodeNames, NodeTarget};
use clio_targets::{DirTarget, MemOptions, MemTarget, ObjectStore, Service};
use settings::{StoreSettings, service};
use share::Share;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Mode of a new store's root directory.
const ROOT_MODE: u32 = 0o755;
/// How often, and first after what time, a request of the store itself is sent again; the time doubles with each.
const RESENDS: u32 = 4;
const RESEND_DELAY: Duration = Duration::from_millis(5);

/// An open store.
pub(crate) struct Store {
    targets: Vec<Arc<dyn Target>>,
    names: Arc<dyn Names>,
    /// What only the process that keeps the store has.
    local: Option<Local>,
    /// The way to the daemon that keeps it, where one does.
    daemon: Option<Arc<Connection>>,
    allocator: RankedMutex<Balanced>,
    settings: StoreSettings,
    clients: RankedMutex<Vec<Weak<ClientInner>>>,
    /// See [`Store::layout_changes`].
    layout_changes: AtomicU64,
}

/// A store that this process keeps.
pub(crate) struct Local {
    pub(crate) namespace: Arc<Namespace>,
    /// The targets that are folders, for checks of what is at rest.
    pub(crate) dirs: Vec<Arc<DirTarget>>,
    /// The targets that are memory.
    mems: Vec<Arc<MemTarget>>,
    /// What is noted of its parts.
    parts: Option<RankedMutex<parts::Parts>>,
    /// Keeps other processes out; released last.
    pub(crate) lock: Option<lock::StoreLock>,
}

impl Store {
    /// The store at `uri`: the one that this process has open already, or a new one.
    ///
    /// # Errors
    /// `EBUSY` if another process has it open; `EPROTO` for a newer one; `EBADMSG` for a foreign one; `EINVAL` if this
    /// process has it open with other settings of the store; what the system says of its folder.
    pub(crate) fn open(uri: &StoreUri, config: &Config) -> Result<Arc<Store>> {
        Self::open_and(uri, config, Store::reclaim)
    }

    /// As [`Store::open`], to serve it: what a crash has left is still there for those that had it open. Then
    /// [`Store::reclaim`] is due.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn open_to_serve(uri: &StoreUri, config: &Config) -> Result<Arc<Store>> {
        Self::open_and(uri, config, |_| Ok(()))
    }

    fn open_and(uri: &StoreUri, config: &Config, at_first: impl Fn(&Store) -> Result<()>) -> Result<Arc<Store>> {
        registry::shared(uri, config, || {
            let store = match uri {
                StoreUri::Mem { targets, .. } => Self::in_memory(targets.unwrap_or(1), config),
                StoreUri::Dir { path, targets } => {
                    let opened = Self::in_folder(path, *targets, config);
                    let ready = opened.and_then(|store| at_first(&store).map(|()| store));
                    ready.map_err(|e| e.at(path.display().to_string()))
                }
                StoreUri::Node { path, targets } => Self::at_daemon(path, *targets, config),
            };
            store?.with_settings(config)
        })
    }

    /// The store with the settings of `config` that are the store's.
    fn with_settings(mut self, config: &Config) -> Result<Store> {
        self.settings = StoreSettings::new(config, self.targets.iter().map(|t| t.index()), self.is_local())?;
        Ok(self)
    }

    fn in_memory(targets: u16, config: &Config) -> Result<Store> {
        let make = |i| {
            let options = MemOptions { index: TargetIndex(i), service: service(config), ..MemOptions::default() };
            Arc::new(MemTarget::in_memory(options))
        };
        let namespace = Namespace::in_memory(&root(), clio_core::clock::now_ns())?;
        let mems: Vec<_> = (0..targets).map(make).collect();
        let targets = mems.iter().map(|m| m.clone() as _).collect();
        let mut store = Self::assemble(targets, Vec::new(), namespace, None);
        if let Some(local) = &mut store.local {
            local.mems = mems;
        }
        Ok(store)
    }

    /// The store that a daemon serves.
    fn at_daemon(path: &Path, wanted: Option<u16>, config: &Config) -> Result<Store> {
        let connection = crate::node::connect(path, wanted, crate::stack::arena_bytes(config) as u64)?;
        if let Some(n) = wanted {
            check_targets(connection.targets(), n)?;
        }
        Ok(Self {
            targets: NodeTarget::all(&connection),
            names: Arc::new(NodeNames::new(connection.clone())),
            local: None,
            daemon: Some(connection),
            allocator: RankedMutex::new(LockRank::Leaf, Balanced::default()),
            settings: StoreSettings::default(),
            clients: RankedMutex::new(LockRank::Leaf, Vec::new()),
            layout_changes: AtomicU64::new(0),
        })
    }

    fn assemble(
        targets: Vec<Arc<dyn Target>>,
        dirs: Vec<Arc<DirTarget>>,
        namespace: Namespace,
        lock: Option<lock::StoreLock>,
    ) -> Self {
        let namespace = Arc::new(namespace);
        Self {
            targets,
            names: Arc::new(UserNames::new(namespace.clone(), crate::owner::caller())),
            local: Some(Local { namespace, dirs, mems: Vec::new(), parts: None, lock }),
            daemon: None,
            allocator: RankedMutex::new(LockRank::Leaf, Balanced::default()),
            settings: StoreSettings::default(),
            clients: RankedMutex::new(LockRank::Leaf, Vec::new()),
            layout_changes: AtomicU64::new(0),
        }
    }

    /// A store over targets that the caller brings, with its names in memory: for tests and benchmarks.
    pub(crate) fn over(targets: Vec<Arc<dyn Target>>, config: &Config) -> Result<Arc<Store>> {
        let namespace = Namespace::in_memory(&root(), clio_core::clock::now_ns())?;
        Ok(Arc::new(Self::assemble(targets, Vec::new(), namespace, None).with_settings(config)?))
    }

    pub(crate) fn targets(&self) -> &[Arc<dyn Target>] {
        &self.targets
    }

    /// Memory for pages, of `bytes` at most: the daemon's too, where one serves the store.
    ///
    /// # Errors
    /// `ENOMEM` if there is no address space for it.
    pub(crate) fn page_memory(&self, bytes: usize) -> Result<Arc<dyn PageMemory>> {
        Ok(match &self.daemon {
            Some(daemon) => Arc::new(Share::of(daemon.arena().clone())),
            None => Arc::new(Arena::private(bytes)?),
        })
    }

    /// Whether this process keeps the store, and sees to it that its names become durable.
    pub(crate) fn is_local(&self) -> bool {
        self.local.is_some()
    }

    pub(crate) fn names(&self) -> &dyn Names {
        self.names.as_ref()
    }

    /// What only the process that keeps the store can look at.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if another process does.
    pub(crate) fn local(&self) -> Result<&Local> {
        let why = "another process serves the store; end that one, and name the store's folder instead";
        self.local.as_ref().ok_or_else(|| Error::new(Errno::EOPNOTSUPP, "store", why))
    }

    /// Where the next stripes go.
    pub(crate) fn allocator(&self) -> &RankedMutex<Balanced> {
        &self.allocator
    }

    pub(crate) fn register(&self, client: &Arc<ClientInner>) {
        let mut clients = self.clients.lock();
        clients.retain(|c| c.strong_count() > 0);
        clients.push(Arc::downgrade(client));
    }

    /// Space of every target, for the choice of stripes. A target that doesn't answer is not usable.
    pub(crate) fn target_space(&self) -> Targets {
        let mut targets = Targets::new(self.targets.iter().map(|t| match call(t.as_ref(), || Op::StatFs) {
            Ok(Reply::StatFs { total, free, .. }) => TargetSpace { index: t.index(), total, free, usable: true },
            _ => TargetSpace { index: t.index(), total: 0, free: 0, usable: false },
        }));
        for (name, members) in self.settings.pools() {
            // Checked when the store was opened.
            let set = targets.set_pool(name, members.iter().copied());
            debug_assert!(set.is_ok(), "pool {name}: {set:?}");
        }
        targets
    }

    /// Forgets a file that has left the namespace and is open nowhere, and destroys its objects if this process keeps the
    /// store. What can't be destroyed now
    /// is remembered by the namespace, and tried again when the store is next opened.
    pub(crate) fn destroy(&self, doomed: &Doomed) {
        let clients: Vec<_> = self.clients.lock().iter().filter_map(Weak::upgrade).collect();
        clients.iter().for_each(|c| c.forget(doomed.fid));
        let Some(local) = &self.local else { return };
        if let Err(e) = self.destroy_objects(local, doomed) {
            tracing::warn!(target: "clio::object", fid = %doomed.fid, error = %e, "objects stay until the next open");
        }
    }

    fn destroy_objects(&self, local: &Local, doomed: &Doomed) -> Result<()> {
        if !doomed.layout.is_empty() {
            let layout = FileLayout::decode(&doomed.layout)?;
            for (stripe, target) in layout.stripes() {
                let Some(target) = self.targets.get(usize::from(target.0)) else { continue };
                match call(target.as_ref(), || Op::Destroy(stripe.fid(doomed.fid))) {
                    Err(e) if e.errno() != Errno::ENOENT => return Err(e),
                    _ => {}
                }
            }
        }
        local.namespace.destroyed(doomed.fid)
    }

    /// After a crash: files that were unlinked while open, and objects that were to be destroyed.
    pub(crate) fn reclaim(&self) -> Result<()> {
        let namespace = &self.local()?.namespace;
        for fid in namespace.orphans()? {
            namespace.reclaim(fid)?;
        }
        for doomed in namespace.to_destroy()? {
            self.destroy(&doomed);
        }
        Ok(())
    }

    /// Counts the layouts that were changed or learned of through this store. Not all of them need be durable.
    pub(crate) fn layout_changes(&self) -> u64 {
        self.layout_changes.load(Ordering::Acquire)
    }

    /// A layout has changed, or another one was learned of.
    pub(crate) fn layout_changed(&self) {
        self.layout_changes.fetch_add(1, Ordering::Release);
    }

    /// Makes what the targets hold durable, if this process keeps them, and takes note that it is: see
    /// [`DirStore::flush`](clio_targets::DirStore::flush).
    pub(crate) fn flush_targets(&self) -> Result<()> {
        let mut first = Ok(());
        for dir in self.local.iter().flat_map(|local| &local.dirs) {
            first = first.and(dir.store().flush());
        }
        first
    }

    /// Makes all that has been written out to the targets durable, whoever wrote it, and all names.
    pub(crate) fn sync(&self) -> Result<()> {
        match &self.daemon {
            Some(daemon) => daemon.sync(),
            None => self.flush_targets().and(self.sync_names()),
        }
    }

    /// Makes names durable.
    pub(crate) fn sync_names(&self) -> Result<()> {
        // Before: what is changed meanwhile may not be durable.
        let epoch = self.local.as_ref().map(|local| local.namespace.epoch());
        self.names.sync()?;
        if let (Some(epoch), Some(parts)) = (epoch, self.local.as_ref().and_then(|local| local.parts.as_ref())) {
            parts.lock().names_are(epoch);
        }
        Ok(())
    }
}

impl Local {
    /// Each target's locks. None of targets that the caller of [`Store::over`] brought.
    pub(crate) fn lock_counts(&self) -> Vec<LockCounts> {
        self.held().into_iter().map(|(locks, _)| locks).collect()
    }

    /// Each target's locks, and the bytes of grant that clients hold.
    pub(crate) fn held(&self) -> Vec<(LockCounts, u64)> {
        let dirs = self.dirs.iter().map(|target| held(target));
        dirs.chain(self.mems.iter().map(|target| held(target))).collect()
    }
}

fn held<S: ObjectStore>(target: &Service<S>) -> (LockCounts, u64) {
    let counts = target.lock_counts();
    let (granted, waiting) = (counts.granted as u64, counts.waiting as u64);
    (LockCounts { target: target.index().0, granted, waiting }, target.grants().given)
}

impl Drop for Store {
    fn drop(&mut self) {
        let last = self.local.as_ref().map_or(Ok(()), |l| l.namespace.end_epoch(clio_core::clock::now_ns()));
        if let Err(e) = last.and(self.sync_names()) {
            tracing::error!(error = %e, "names could not be made durable at close");
        }
    }
}

/// An operation on names that is done now.
pub(crate) fn now() -> OpCtx<'static> {
    OpCtx::at(clio_core::clock::now_ns())
}

/// Refuses a number of targets that isn't the store's.
fn check_targets(have: u16, wanted: u16) -> Result<()> {
    if have == wanted {
        return Ok(());
    }
    let why = format!("the store has {have} targets, not {wanted}; leave 'targets=' out");
    Err(Error::new(Errno::EINVAL, "open", why))
}

/// Sends a request that needs no connection of its own and waits for the reply. After passing trouble it is sent again;
/// `op` makes it, and may be carried out twice.
pub(crate) fn call(target: &dyn Target, op: impl Fn() -> Op) -> Result<Reply> {
    let (client, _) = target.connect(Arc::new(Nobody))?;
    let reply = call_patiently(target, client, op);
    let _ = call_patiently(target, client, || Op::Disconnect);
    reply
}

fn call_patiently(target: &dyn Target, client: clio_core::units::ClientId, op: impl Fn() -> Op) -> Result<Reply> {
    let mut delay = RESEND_DELAY;
    for _ in 0..RESENDS {
        match call_as(target, client, op()) {
            Err(e) if matches!(e.errno(), Errno::EIO | Errno::EAGAIN | Errno::ENOMEM) => std::thread::sleep(delay),
            reply => return reply,
        }
        delay *= 2;
    }
    call_as(target, client, op())
}

fn call_as(target: &dyn Target, client: clio_core::units::ClientId, op: Op) -> Result<Reply> {
    let (tx, rx) = std::sync::mpsc::sync_channel(1);
    let done: Completion = Box::new(move |reply| {
        let _ = tx.send(reply);
    });
    target.submit(client, op, done);
    rx.recv().unwrap_or_else(|_| Err(Error::new(Errno::ESHUTDOWN, "target", "the target went away")))
}

/// A client that holds no locks, so that no callback concerns it.
struct Nobody;

impl clio_core::target::TargetClient for Nobody {
    fn blocking_ast(&self, _: TargetIndex, _: clio_core::target::DlmHandle) {}
    fn glimpse_ast(&self, _: TargetIndex, _: clio_core::target::DlmHandle, _: clio_core::target::GlimpseReply) {}
    fn evicted(&self, _: TargetIndex) {}
}

fn root() -> NewNode<'static> {
    NewNode::new(ROOT_MODE, crate::owner::uid(), crate::owner::gid())
}
