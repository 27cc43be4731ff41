//! A client of a store: the stack that it built, and operations on names.

mod attributes;
mod layouts;
mod names;
mod unmake;

use crate::config::{Config, Source};
use crate::file::File;
use crate::options::OpenOptions;
use crate::stack::Stack;
use crate::store::Store;
use crate::uri::StoreUri;
use clio_arena::Origin;
use clio_core::object::{Device, ObjectConf, ObjectRef};
use clio_core::units::Fid;
use clio_core::{Errno, Error, Result};
use clio_lov::layout::Layout;
use clio_namespace::{IfExists, Inode, Kind, Names, NewNode, Removed};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A client of a store. Cheap to clone; clones are the same client. Dropping the last clone and the last of its
/// files writes everything out and gives all locks back.
///
/// Two clients that open the same store in one process are two clients to the lock manager: each has its own cache,
/// kept coherent by locks.
///
/// A child of fork can't use its parent's client or files: what returns a `Result` gives `ESTALE` there, and nothing
/// is done in the parent's name, dropping them included; figures are of this process, which has none. It opens the store
/// anew.
#[derive(Clone)]
pub struct Client {
    inner: Arc<ClientInner>,
}

pub(crate) struct ClientInner {
    // The stack goes first: it writes out to the store's targets.
    stack: Stack,
    store: Arc<Store>,
    config: Config,
    layers: Layers,
    origin: Origin,
}

/// Settings of a client that is yet to connect.
#[derive(Debug)]
pub struct ClientBuilder {
    store: Option<String>,
    config: Result<Config>,
    layers: Layers,
}

/// Makes a layer over the one below.
pub type MakeLayer = Arc<dyn Fn(Arc<dyn Device>) -> Arc<dyn Device> + Send + Sync>;

/// Layers of the caller's, lowest first.
#[derive(Clone, Default)]
pub(crate) struct Layers(pub(crate) Vec<MakeLayer>);

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} layers", self.0.len())
    }
}

impl ClientBuilder {
    /// Names the store, as for [`Client::open`].
    pub fn store(mut self, uri: &str) -> Self {
        self.store = Some(uri.to_string());
        self
    }

    /// Puts a layer between the POSIX layer and what is below it; a later one goes on top of an earlier one.
    pub fn layer(mut self, make: impl Fn(Arc<dyn Device>) -> Arc<dyn Device> + Send + Sync + 'static) -> Self {
        self.layers.0.push(Arc::new(make));
        self
    }

    /// Overrides one setting (see [`crate::config::KEYS`]). A bad one is reported by [`ClientBuilder::connect`].
    pub fn set(mut self, name: &str, value: impl fmt::Display) -> Self {
        if let Ok(config) = &mut self.config
            && let Err(e) = config.set(name, &value.to_string(), Source::Given)
        {
            self.config = Err(e);
        }
        self
    }

    /// Makes or replaces a pool of targets, for layouts to name. It is the store's: see [`ClientBuilder::connect`].
    pub fn pool(mut self, name: &str, members: impl IntoIterator<Item = u16>) -> Self {
        if let Ok(config) = &mut self.config {
            config.set_pool(name, members);
        }
        self
    }

    /// New files under `prefix` get `layout`, as by [`Config::set_layout_rule`]. A rule that can't be is reported by
    /// [`ClientBuilder::connect`].
    pub fn layout_rule(mut self, prefix: &str, layout: Layout) -> Self {
        if let Ok(config) = &mut self.config
            && let Err(e) = config.set_layout_rule(prefix, layout)
        {
            self.config = Err(e);
        }
        self
    }

    /// Uses these settings instead of those of `clio.toml` and the environment.
    pub fn config(mut self, config: Config) -> Self {
        self.config = Ok(config);
        self
    }

    /// Opens the store and builds the stack.
    ///
    /// # Errors
    /// `EINVAL` if no store is named, for a bad URI or setting, or for a pool or a setting of the lock manager that differs
    /// from those with which this process has the store open already; as the store says: `EBUSY`, `EPROTO`, `EBADMSG`,
    /// `ENOTEMPTY`, `EACCES`…
    pub fn connect(self) -> Result<Client> {
        let config = self.config?;
        let named = self.store.or_else(|| std::env::var("CLIO_STORE").ok()).filter(|s| !s.is_empty());
        let none = || Error::new(Errno::EINVAL, "open", "no store is named; name one, or set CLIO_STORE");
        let uri: StoreUri = named.ok_or_else(none)?.parse()?;
        let store = Store::open(&uri, &config)?;
        Client::over(store, config, self.layers)
    }
}

impl Client {
    /// A client of the store at `uri` with settings from `clio.toml` (see [`Config::load`]) and `CLIO_*` variables. A
    /// `dir:` store that doesn't exist is made.
    ///
    /// # Errors
    /// As [`ClientBuilder::connect`].
    pub fn open(uri: &str) -> Result<Client> {
        Self::builder().store(uri).connect()
    }

    /// A client with settings: at first those that [`Client::open`] takes, of the store that `CLIO_STORE` names.
    pub fn builder() -> ClientBuilder {
        ClientBuilder { store: None, config: Config::load(None), layers: Layers::default() }
    }

    /// A client over storage targets of the caller's, with names in memory: for tests and benchmarks of targets.
    ///
    /// # Errors
    /// What a target says when it is connected to.
    pub fn over_targets(targets: Vec<Arc<dyn clio_core::target::Target>>, config: Config) -> Result<Client> {
        Self::over(Store::over(targets, &config)?, config, Layers::default())
    }

    /// Another client of the same store, with the same settings and its own cache and locks.
    ///
    /// # Errors
    /// What a target says when it is connected to.
    pub fn second_client(&self) -> Result<Client> {
        self.check_process()?;
        Self::over(self.inner.store.clone(), self.inner.config.clone(), self.inner.layers.clone())
    }

    fn over(store: Arc<Store>, config: Config, layers: Layers) -> Result<Client> {
        let stack = Stack::build(&store, &config, &layers)?;
        let inner = Arc::new(ClientInner { stack, store: store.clone(), config, layers, origin: Origin::here() });
        store.register(&inner);
        Ok(Client { inner })
    }

    /// The settings in force.
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// Opens a file that exists, for reading.
    ///
    /// # Errors
    /// As [`Client::open_with`].
    pub fn open_file(&self, path: impl AsRef<Path>) -> Result<File> {
        self.open_with(path, OpenOptions::new().read(true))
    }

    /// Makes a file, or cuts one to nothing, and opens it for reading and writing.
    ///
    /// # Errors
    /// As [`Client::open_with`].
    pub fn create(&self, path: impl AsRef<Path>) -> Result<File> {
        self.open_with(path, OpenOptions::new().read(true).write(true).create(true).truncate(true))
    }

    /// Opens a file. One that it made and can't open goes again, unless somebody else has come to use it by then.
    ///
    /// # Errors
    /// `EACCES`, `ENOENT`, `EEXIST`, `EISDIR`, `ENOTDIR`, `ELOOP`, `ENAMETOOLONG`; `EINVAL` for options that make no sense
    /// or a layout that the store can't have; what targets say.
    pub fn open_with(&self, path: impl AsRef<Path>, options: OpenOptions) -> Result<File> {
        let path = path.as_ref();
        self.open_inner(path, &options).map_err(|e| e.at(path.display().to_string()))
    }

    fn open_inner(&self, path: &Path, options: &OpenOptions) -> Result<File> {
        options.check()?;
        let names = self.names()?;
        let (inode, made) = match options.makes() {
            false => (names.resolve(path.into(), true)?, false),
            true => {
                let layout = options.layout.as_ref().map(|l| self.check_layout(l)).transpose()?;
                let new = NewNode { layout: layout.as_deref(), ..new_node(options.mode) };
                let if_exists = if options.create_new { IfExists::Fail } else { IfExists::Open };
                names.create(&crate::store::now(), path.into(), &new, if_exists)?
            }
        };
        if inode.kind == Kind::Dir {
            return Err(Error::new(Errno::EISDIR, "open", "it is a directory; list it with read_dir"));
        }
        let new = made.then(|| inode.clone());
        let file = self.open_inode(path, inode, options).inspect_err(|_| {
            if let Some(new) = new {
                self.unmake(path, new);
            }
        })?;
        if options.truncate && !made {
            file.set_len(0)?;
        }
        Ok(file)
    }

    fn open_inode(&self, path: &Path, inode: Inode, options: &OpenOptions) -> Result<File> {
        let fid = inode.fid;
        self.names()?.open_ref(fid, options.access())?;
        // From here on the open reference is given back when the file goes, or here.
        let opened = self.ensure_layout(path, inode).and_then(|inode| {
            let object = self.object(&inode)?;
            File::new(self.clone(), object, options)
        });
        opened.inspect_err(|_| self.inner.close_ref(fid))
    }

    fn object(&self, inode: &Inode) -> Result<ObjectRef> {
        let conf = ObjectConf {
            layout: Some(inode.layout.as_slice().into()),
            attr: clio_core::attr::Attr { uid: inode.uid, gid: inode.gid, ..Default::default() },
            ..ObjectConf::default()
        };
        self.inner.stack.find(inode.fid, &conf)
    }

    /// # Errors
    /// `ESTALE` in a forked child.
    fn names(&self) -> Result<&dyn Names> {
        self.check_process()?;
        Ok(self.inner.store.names())
    }

    /// Writes out all dirty data and makes all data and names durable, also what other clients have written, but not what
    /// they have yet to write out. After a reboot of the machine, nothing of that is in doubt. Blocks.
    ///
    /// # Errors
    /// The first error; everything else is written all the same.
    pub fn sync(&self) -> Result<()> {
        self.check_process()?;
        let data = self.inner.stack.sync_all();
        data.and(self.inner.store.sync())
    }

    /// Drops all caches: dirty data is written out, locks are given back. Blocks.
    ///
    /// # Errors
    /// The first write error.
    pub fn drop_caches(&self) -> Result<()> {
        self.check_process()?;
        self.inner.stack.drop_caches()
    }

    /// Space of the store's targets: total and free bytes. None, in a forked child.
    pub fn space(&self) -> (u64, u64) {
        if self.check_process().is_err() {
            return (0, 0);
        }
        let targets = self.inner.store.target_space();
        targets.all().iter().fold((0, 0), |(t, f), x| (t + x.total, f + x.free))
    }

    /// # Errors
    /// `ESTALE` in a forked child.
    pub(crate) fn check_process(&self) -> Result<()> {
        check_origin(self.inner.origin)
    }

    pub(crate) fn inner(&self) -> &ClientInner {
        &self.inner
    }
}

impl ClientInner {
    pub(crate) fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Whether all files are lazy from the start.
    pub(crate) fn forces_lazyio(&self) -> bool {
        self.config.get("force_lazyio") == 1
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Drops whatever is cached of a file that is being destroyed.
    pub(crate) fn forget(&self, fid: Fid) {
        self.stack.forget(fid);
    }

    /// An open file goes: if it was the last one of an unlinked file, its objects go too.
    pub(crate) fn close_ref(&self, fid: Fid) {
        match self.store.names().close_ref(fid) {
            Ok(Some(doomed)) => self.store.destroy(&doomed),
            Ok(None) => {}
            Err(e) => tracing::warn!(target: "clio::object", %fid, error = %e, "close"),
        }
    }

    fn removed(&self, removed: Option<Removed>) {
        if let Some(doomed) = removed.and_then(|r| r.destroy) {
            self.store.destroy(&doomed);
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if !self.inner.origin.is_here() {
            // What is the parent's is never taken down here: its threads, arena and connection are not this process's.
            std::mem::forget(self.inner.clone());
        }
    }
}

/// Refuses what a forked child does with its parent's.
///
/// # Errors
/// `ESTALE`, as of any handle that stands for nothing any more: what to do about it is the same, to open again.
#[inline]
pub(crate) fn check_origin(origin: Origin) -> Result<()> {
    if origin.is_here() { Ok(()) } else { Err(inherited()) }
}

#[cold]
fn inherited() -> Error {
    let why = "the client was opened before fork, by the parent of this process; open the store again in the child";
    Error::new(Errno::ESTALE, "client", why)
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("targets", &self.inner.store.targets().len()).finish_non_exhaustive()
    }
}

fn new_node(mode: u32) -> NewNode<'static> {
    NewNode::new(mode, crate::owner::uid(), crate::owner::gid())
}
