//! `clio format`.

use crate::app::{App, is_missing};
use crate::report::Stop;
use clap::Args;
use clio::{Errno, Error, StoreUri};

/// Make a store
///
/// The commands that write make a store by themselves where there is none; this one is for a choice of targets, and
/// fails where a store, or anything else, exists.
#[derive(Args, Debug)]
pub(crate) struct Format {
    /// Number of storage targets, each a folder in the store's
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    targets: Option<u16>,
}

impl Format {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        let other = |why: &str| Err(Stop::Usage(why.into()));
        let (path, targets) = match app.store()? {
            StoreUri::Dir { path, targets } => (path, targets),
            StoreUri::Mem { .. } => return other("a mem: store needs no format; give dir:/path"),
            StoreUri::Node { .. } => {
                return other("a node: store is made in its folder, before a daemon serves it; give dir:/path of that");
            }
        };
        if let (Some(a), Some(b)) = (self.targets, targets)
            && a != b
        {
            return Err(Stop::Usage(format!("--targets says {a} targets, the store's URI {b}; leave one out")));
        }
        if !is_missing(&path) {
            let why = "the folder is not empty, or a file; name a new or empty folder";
            return Err(Stop::on(app.store_text()?, Error::new(Errno::EEXIST, "format", why)));
        }
        let uri = StoreUri::Dir { path, targets: self.targets.or(targets) };
        app.connect(&uri.to_string())?.sync().map_err(|e| Stop::on("sync", e))
    }
}
