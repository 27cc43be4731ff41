//! A client of a store: the stack that it built, and operations on names.

use crate::config::{Config, Source};
use crate::file::File;
use crate::metadata::{DirEntry, Metadata};
use crate::options::OpenOptions;
use crate::stack::Stack;
use crate::store::Store;
use crate::uri::StoreUri;
use clio_core::env::{Env, EnvTags};
use clio_core::object::{Device, ObjectConf, ObjectRef};
use clio_core::units::Fid;
use clio_core::{Errno, Error, Result};
use clio_lov::layout::{FileLayout, Layout};
use clio_namespace::{IfExists, Inode, Kind, Namespace, NewNode, OpCtx, Removed, RenameMode, SetAttr, XattrMode};
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directory entries read at a time.
const READDIR_BATCH: usize = 1024;

/// A client of a store. Cheap to clone; clones are the same client. Dropping the last clone and the last of its
/// files writes everything out and gives all locks back.
///
/// Two clients that open the same store in one process are two clients to the lock manager: each has its own cache,
/// kept coherent by locks.
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
    default_layout: Layout,
}

/// Settings of a client that is yet to connect.
#[derive(Debug)]
pub struct ClientBuilder {
    uri: Result<StoreUri>,
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

    /// Uses these settings instead of those of `clio.toml` and the environment.
    pub fn config(mut self, config: Config) -> Self {
        self.config = Ok(config);
        self
    }

    /// Opens the store and builds the stack.
    ///
    /// # Errors
    /// `EINVAL` for a bad URI or setting; as the store says: `EBUSY`, `EPROTO`, `EBADMSG`, `ENOTEMPTY`, `EACCES`…
    pub fn connect(self) -> Result<Client> {
        let (uri, config) = (self.uri?, self.config?);
        let store = Store::open(&uri, &config)?;
        Client::over(store, config, self.layers)
    }
}

impl Client {
    /// A client of the store at `uri` with settings from `clio.toml` (if `CLIO_CONFIG` names one) and `CLIO_*`
    /// variables. A `dir:` store that doesn't exist is made.
    ///
    /// # Errors
    /// As [`ClientBuilder::connect`].
    pub fn open(uri: &str) -> Result<Client> {
        Self::builder(uri).connect()
    }

    /// A client with settings.
    pub fn builder(uri: &str) -> ClientBuilder {
        ClientBuilder { uri: uri.parse(), config: Config::load(None), layers: Layers::default() }
    }

    /// A client over storage targets of the caller's, with names in memory: for tests and benchmarks of targets.
    ///
    /// # Errors
    /// What a target says when it is connected to.
    pub fn over_targets(targets: Vec<Arc<dyn clio_core::target::Target>>, config: Config) -> Result<Client> {
        Self::over(Store::over(targets)?, config, Layers::default())
    }

    /// Another client of the same store, with the same settings and its own cache and locks.
    ///
    /// # Errors
    /// What a target says when it is connected to.
    pub fn second_client(&self) -> Result<Client> {
        Self::over(self.inner.store.clone(), self.inner.config.clone(), self.inner.layers.clone())
    }

    fn over(store: Arc<Store>, config: Config, layers: Layers) -> Result<Client> {
        let stack = Stack::build(&store, &config, &layers)?;
        let count = config.get("stripe_count") as u16;
        let default_layout = Layout::raid0().stripe_count(count).stripe_size(config.get("stripe_kb") << 10);
        let inner = Arc::new(ClientInner { stack, store: store.clone(), config, layers, default_layout });
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

    /// Opens a file.
    ///
    /// # Errors
    /// `ENOENT`, `EEXIST`, `EISDIR`, `ENOTDIR`, `ELOOP`, `ENAMETOOLONG`; `EINVAL` for options that make no sense
    /// or a layout that the store can't have; what targets say.
    pub fn open_with(&self, path: impl AsRef<Path>, options: OpenOptions) -> Result<File> {
        let path = path.as_ref();
        self.open_inner(path, &options).map_err(|e| e.at(path.display().to_string()))
    }

    fn open_inner(&self, path: &Path, options: &OpenOptions) -> Result<File> {
        options.check()?;
        let names = self.names();
        let (inode, made) = match options.makes() {
            false => (names.resolve(path, true)?, false),
            true => {
                let layout = options.layout.as_ref().map(|l| self.check_layout(l)).transpose()?;
                let new = NewNode { layout: layout.as_deref(), ..new_node(options.mode) };
                let if_exists = if options.create_new { IfExists::Fail } else { IfExists::Open };
                names.create_path(&OpCtx::at(crate::clock::now()), path, &new, if_exists)?
            }
        };
        if inode.kind == Kind::Dir {
            return Err(Error::new(Errno::EISDIR, "open", "it is a directory; list it with read_dir"));
        }
        let fid = inode.fid;
        names.open_ref(fid)?;
        // From here on the open reference is given back when the file goes, or here.
        let opened = self.ensure_layout(inode).and_then(|inode| {
            let object = self.object(&inode)?;
            File::new(self.clone(), object, options)
        });
        let file = opened.inspect_err(|_| self.inner.close_ref(fid))?;
        if options.truncate && !made {
            file.set_len(0)?;
        }
        Ok(file)
    }

    /// A file made without a layout of its own or its directory's gets this client's when it is first opened.
    fn ensure_layout(&self, mut inode: Inode) -> Result<Inode> {
        if inode.layout.is_empty() {
            // Two clients may do this at once: the first one's counts.
            let _changes = self.inner.store.allocator().lock();
            inode = self.names().getattr(inode.fid)?;
            if inode.layout.is_empty() {
                inode.layout = self.default_layout()?;
                self.names().set_layout(&OpCtx::at(crate::clock::now()), inode.fid, &inode.layout)?;
            }
        }
        Ok(inode)
    }

    fn default_layout(&self) -> Result<Vec<u8>> {
        Ok(FileLayout::new(&self.inner.default_layout)?.encode())
    }

    /// Encodes a layout that was asked for, if the store can have it.
    fn check_layout(&self, layout: &Layout) -> Result<Vec<u8>> {
        layout.check_on(&self.inner.store.target_space())?;
        Ok(FileLayout::new(layout)?.encode())
    }

    fn object(&self, inode: &Inode) -> Result<ObjectRef> {
        let conf = ObjectConf {
            layout: Some(inode.layout.as_slice().into()),
            attr: clio_core::attr::Attr { uid: inode.uid, gid: inode.gid, ..Default::default() },
            ..ObjectConf::default()
        };
        self.inner.stack.find(inode.fid, &conf)
    }

    fn names(&self) -> &Namespace {
        self.inner.store.namespace()
    }

    /// Attributes of what `path` names, following symbolic links.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ELOOP`, `ENAMETOOLONG`; what targets say.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        let path = path.as_ref();
        let inode = self.names().resolve(path, true)?;
        self.inode_metadata(inode).map_err(|e| e.at(path.display().to_string()))
    }

    /// Attributes of what `path` names; a symbolic link at its end is not followed.
    ///
    /// # Errors
    /// As [`Client::metadata`].
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        let path = path.as_ref();
        let inode = self.names().resolve(path, false)?;
        self.inode_metadata(inode).map_err(|e| e.at(path.display().to_string()))
    }

    pub(crate) fn inode_metadata(&self, inode: Inode) -> Result<Metadata> {
        if inode.kind != Kind::File || inode.layout.is_empty() {
            return Ok(Metadata::new(inode, None));
        }
        let object = self.object(&inode)?;
        let attr = object.glimpse(&Env::get(EnvTags::IO))?;
        Ok(Metadata::new(inode, Some(attr)))
    }

    pub(crate) fn metadata_of(&self, fid: Fid) -> Result<Metadata> {
        self.inode_metadata(self.names().getattr(fid)?)
    }

    /// Whether `path` names something.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.names().resolve(path.as_ref(), true).is_ok()
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// `EEXIST`, `ENOENT`, `ENOTDIR`, `ENAMETOOLONG`, `ENOSPC`.
    pub fn mkdir(&self, path: impl AsRef<Path>) -> Result<()> {
        let ctx = OpCtx::at(crate::clock::now());
        self.names().mkdir_path(&ctx, path.as_ref(), &new_node(0o777)).map(drop)
    }

    /// Makes a directory and those above it that are missing.
    ///
    /// # Errors
    /// As [`Client::mkdir`], but it is no error if the directory exists.
    pub fn mkdir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        for part in path.ancestors().collect::<Vec<_>>().into_iter().rev() {
            match self.mkdir(part) {
                Err(e) if e.errno() == Errno::EEXIST => {}
                Err(e) if part.parent().is_none() || part.as_os_str().is_empty() => drop(e),
                other => other?,
            }
        }
        match self.names().resolve(path, true)?.kind {
            Kind::Dir => Ok(()),
            _ => {
                Err(Error::new(Errno::EEXIST, "mkdir", "it exists and is no directory").at(path.display().to_string()))
            }
        }
    }

    /// The entries of a directory, in byte order of their names.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`.
    pub fn read_dir(&self, path: impl AsRef<Path>) -> Result<Vec<DirEntry>> {
        let dir = self.names().resolve(path.as_ref(), true)?.fid;
        let mut all: Vec<DirEntry> = Vec::new();
        loop {
            let after = all.last().map(|e| e.name().as_bytes().to_vec());
            let batch = self.names().readdir(dir, after.as_deref(), READDIR_BATCH);
            let batch = batch.map_err(|e| e.at(path.as_ref().display().to_string()))?;
            let last = batch.len() < READDIR_BATCH;
            all.extend(batch.into_iter().map(DirEntry::new));
            if last {
                return Ok(all);
            }
        }
    }

    /// Removes a name of a file or symbolic link. The data goes with the last name and the last open file.
    ///
    /// # Errors
    /// `ENOENT`, `EISDIR`, `ENOTDIR`.
    pub fn remove_file(&self, path: impl AsRef<Path>) -> Result<()> {
        let removed = self.names().unlink_path(&OpCtx::at(crate::clock::now()), path.as_ref())?;
        self.inner.removed(Some(removed));
        Ok(())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ENOTEMPTY`, `EBUSY` for the root.
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        self.names().rmdir_path(&OpCtx::at(crate::clock::now()), path.as_ref()).map(drop)
    }

    /// Removes a directory and all that is below it.
    ///
    /// # Errors
    /// As [`Client::remove_file`] and [`Client::remove_dir`]; what was removed before the error stays removed.
    pub fn remove_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        for entry in self.read_dir(path)? {
            let below = path.join(entry.name());
            match entry.file_type() {
                crate::FileType::Dir => self.remove_dir_all(&below)?,
                _ => self.remove_file(&below)?,
            }
        }
        self.remove_dir(path)
    }

    /// Renames, replacing a file (or an empty directory, by a directory) at the new name.
    ///
    /// # Errors
    /// As rename(2): `ENOENT`, `EISDIR`, `ENOTDIR`, `ENOTEMPTY`, `EINVAL` into itself, `EBUSY`.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        self.rename_with(from, to, RenameMode::Replace)
    }

    /// Renames, with a choice of what happens to what is at the new name.
    ///
    /// # Errors
    /// As [`Client::rename`]; `EEXIST` for [`RenameMode::NoReplace`].
    pub fn rename_with(&self, from: impl AsRef<Path>, to: impl AsRef<Path>, mode: RenameMode) -> Result<()> {
        let ctx = OpCtx::at(crate::clock::now());
        let removed = self.names().rename_path(&ctx, from.as_ref(), to.as_ref(), mode)?;
        self.inner.removed(removed);
        Ok(())
    }

    /// Gives a file another name.
    ///
    /// # Errors
    /// `ENOENT`, `EEXIST`, `EPERM` for a directory, `EMLINK`.
    pub fn hard_link(&self, original: impl AsRef<Path>, link: impl AsRef<Path>) -> Result<()> {
        let ctx = OpCtx::at(crate::clock::now());
        self.names().link_path(&ctx, original.as_ref(), false, link.as_ref()).map(drop)
    }

    /// Makes a symbolic link at `link` to `target`, which need not exist.
    ///
    /// # Errors
    /// `EEXIST`, `ENOENT`, `ENAMETOOLONG`.
    pub fn symlink(&self, target: impl AsRef<Path>, link: impl AsRef<Path>) -> Result<()> {
        let ctx = OpCtx::at(crate::clock::now());
        let target = target.as_ref().as_os_str().as_bytes();
        self.names().symlink_path(&ctx, target, link.as_ref(), &new_node(0o777)).map(drop)
    }

    /// What a symbolic link points at.
    ///
    /// # Errors
    /// `ENOENT`; `EINVAL` if it is none.
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        let inode = self.names().resolve(path.as_ref(), false)?;
        let target = self.names().readlink(inode.fid).map_err(|e| e.at(path.as_ref().display().to_string()))?;
        Ok(OsString::from_vec(target).into())
    }

    /// Sets permission bits.
    ///
    /// # Errors
    /// `ENOENT` and the like.
    pub fn set_mode(&self, path: impl AsRef<Path>, mode: u32) -> Result<()> {
        self.set_attributes(path, &SetAttr { mode: Some(mode), ..SetAttr::default() })
    }

    /// Sets owner and group; `None` leaves one as it is.
    ///
    /// # Errors
    /// `ENOENT` and the like.
    pub fn set_owner(&self, path: impl AsRef<Path>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.set_attributes(path, &SetAttr { uid, gid, ..SetAttr::default() })
    }

    /// Sets times, nanoseconds since 1970; `None` leaves one as it is.
    ///
    /// # Errors
    /// `ENOENT` and the like.
    pub fn set_times(&self, path: impl AsRef<Path>, atime: Option<u64>, mtime: Option<u64>) -> Result<()> {
        let inode = self.names().resolve(path.as_ref(), true)?;
        if inode.kind == Kind::File && !inode.layout.is_empty() {
            // Data written before must not be stamped later than this.
            if let Some(object) = self.inner.stack.lookup(inode.fid) {
                self.inner.stack.flush(&object)?;
            }
        }
        self.set_attributes(path, &SetAttr { atime, mtime, ..SetAttr::default() })
    }

    fn set_attributes(&self, path: impl AsRef<Path>, set: &SetAttr) -> Result<()> {
        let inode = self.names().resolve(path.as_ref(), true)?;
        self.names().setattr(&OpCtx::at(crate::clock::now()), inode.fid, set).map(drop)
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// `EEXIST`, `ENODATA` by mode; `ENOSPC` for too much.
    pub fn set_xattr(&self, path: impl AsRef<Path>, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let inode = self.names().resolve(path.as_ref(), true)?;
        self.names().set_xattr(&OpCtx::at(crate::clock::now()), inode.fid, name, value, mode)
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// `ENODATA` if there is none.
    pub fn get_xattr(&self, path: impl AsRef<Path>, name: &[u8]) -> Result<Vec<u8>> {
        self.names().get_xattr(self.names().resolve(path.as_ref(), true)?.fid, name)
    }

    /// The names of all extended attributes.
    ///
    /// # Errors
    /// `ENOENT` and the like.
    pub fn list_xattrs(&self, path: impl AsRef<Path>) -> Result<Vec<Vec<u8>>> {
        self.names().list_xattrs(self.names().resolve(path.as_ref(), true)?.fid)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `ENODATA` if there is none.
    pub fn remove_xattr(&self, path: impl AsRef<Path>, name: &[u8]) -> Result<()> {
        let fid = self.names().resolve(path.as_ref(), true)?.fid;
        self.names().remove_xattr(&OpCtx::at(crate::clock::now()), fid, name)
    }

    /// The layout of a file; of one that was never opened, the one that it will get.
    ///
    /// # Errors
    /// `EISDIR` for a directory (see [`Client::dir_layout`]), `ENOENT` and the like.
    pub fn layout(&self, path: impl AsRef<Path>) -> Result<(Fid, FileLayout)> {
        let shown = path.as_ref().display().to_string();
        let inode = self.names().resolve(path.as_ref(), true)?;
        if inode.kind != Kind::File {
            return Err(Error::new(Errno::EISDIR, "layout", "it is no file").at(shown));
        }
        let inode = self.ensure_layout(inode)?;
        Ok((inode.fid, FileLayout::decode(&inode.layout).map_err(|e| e.at(shown))?))
    }

    /// The layout that files made in a directory get; `None` if it has no wish.
    ///
    /// # Errors
    /// `ENOENT` and the like.
    pub fn dir_layout(&self, path: impl AsRef<Path>) -> Result<Option<FileLayout>> {
        let inode = self.names().resolve(path.as_ref(), true)?;
        match inode.default_layout.is_empty() {
            true => Ok(None),
            false => FileLayout::decode(&inode.default_layout).map(Some),
        }
    }

    /// Sets the layout of a directory's future files, or makes an empty file with this layout.
    ///
    /// # Errors
    /// `EEXIST` if a file exists already; `EINVAL` for a layout that the store can't have.
    pub fn set_layout(&self, path: impl AsRef<Path>, layout: &Layout) -> Result<()> {
        let path = path.as_ref();
        let encoded = self.check_layout(layout).map_err(|e| e.at(path.display().to_string()))?;
        let ctx = OpCtx::at(crate::clock::now());
        match self.names().resolve(path, true) {
            Ok(inode) if inode.kind == Kind::Dir => self.names().set_layout(&ctx, inode.fid, &encoded),
            _ => {
                let new = NewNode { layout: Some(&encoded), ..new_node(0o666) };
                self.names().create_path(&ctx, path, &new, IfExists::Fail).map(drop)
            }
        }
    }

    /// Writes out all dirty data and makes all data and names durable. Blocks.
    ///
    /// # Errors
    /// The first error; everything else is written all the same.
    pub fn sync(&self) -> Result<()> {
        let data = self.inner.stack.sync_all();
        data.and(self.inner.store.sync_names())
    }

    /// Drops all caches: dirty data is written out, locks are given back. Blocks.
    ///
    /// # Errors
    /// The first write error.
    pub fn drop_caches(&self) -> Result<()> {
        self.inner.stack.drop_caches()
    }

    /// Space of the store's targets: total and free bytes.
    pub fn space(&self) -> (u64, u64) {
        let targets = self.inner.store.target_space();
        targets.all().iter().fold((0, 0), |(t, f), x| (t + x.total, f + x.free))
    }

    pub(crate) fn inner(&self) -> &ClientInner {
        &self.inner
    }
}

impl ClientInner {
    pub(crate) fn stack(&self) -> &Stack {
        &self.stack
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
        match self.store.namespace().close_ref(fid) {
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

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("targets", &self.inner.store.targets().len()).finish_non_exhaustive()
    }
}

fn new_node(mode: u32) -> NewNode<'static> {
    NewNode::new(mode, crate::owner::uid(), crate::owner::gid())
}
