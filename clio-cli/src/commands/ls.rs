//! `clio ls`.

use crate::app::App;
use crate::output::Output;
use crate::paths::stored;
use crate::report::Stop;
use crate::show::{FileRecord, Human, Owners, human, mode_text, short};
use clap::Args;
use clio::{Client, FileType, Metadata};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// List folders
///
/// On a terminal, control characters in names are escaped. The size of a folder is its number of entries.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Ls {
    /// One line for each: type, mode, links, owner, group, size, time of change, name
    #[arg(short, long)]
    long: bool,
    /// Everything below, too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Names that begin with a dot, too
    #[arg(short, long)]
    all: bool,
    /// Folders themselves, not what is in them
    #[arg(short, long)]
    directory: bool,
    #[command(flatten)]
    human: Human,
    /// Paths in the store
    #[arg(default_value = "/", value_parser = stored())]
    paths: Vec<PathBuf>,
}

/// What is listed under one heading.
struct Group {
    /// The folder; `None` for files that were named.
    folder: Option<PathBuf>,
    entries: Vec<Entry>,
}

struct Entry {
    shown: OsString,
    path: PathBuf,
    /// With what a symbolic link points at; `None` where names are enough.
    meta: Option<(Metadata, Option<PathBuf>)>,
}

impl Ls {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        let client = app.client()?;
        let mut records = Vec::new();
        let mut printer = Printer { ls: &self, out: app.out(), owners: Owners::read(), first: true };
        let headings = self.recursive || self.paths.len() > 1;
        let (files, folders) = self.sort_arguments(app, &client);
        let mut show = |group: Group| match app.json() {
            true => {
                records.extend(group.entries.iter().filter_map(Entry::record));
                Ok(())
            }
            false => printer.group(&group, headings),
        };
        if !files.is_empty() {
            show(Group { folder: None, entries: files })?;
        }
        // Depth first, in the order of the names.
        let mut todo: Vec<_> = folders.into_iter().rev().collect();
        while let Some(folder) = todo.pop() {
            let Some(group) = self.read_folder(app, &client, &folder) else { continue };
            if self.recursive {
                todo.extend(group.entries.iter().rev().filter(|e| e.is_dir()).map(|e| e.path.clone()));
            }
            show(group)?;
        }
        match app.json() {
            true => app.print_json(&records),
            false => printer.out.finish(),
        }
    }

    fn needs_metadata(&self, app: &App) -> bool {
        self.long || self.recursive || app.json()
    }

    /// Tells named folders from other named files.
    fn sort_arguments(&self, app: &App, client: &Client) -> (Vec<Entry>, Vec<PathBuf>) {
        let (mut files, mut folders) = (Vec::new(), Vec::new());
        for path in &self.paths {
            let link_itself = self.long || self.directory;
            let found = match client.symlink_metadata(path) {
                Ok(m) if m.is_symlink() && !link_itself => client.metadata(path).or(Ok(m)),
                other => other,
            };
            match found {
                Ok(m) if m.is_dir() && !self.directory => folders.push(path.clone()),
                Ok(m) => {
                    let target = m.is_symlink().then(|| client.read_link(path).ok()).flatten();
                    files.push(Entry { shown: path.into(), path: path.clone(), meta: Some((m, target)) });
                }
                Err(e) => app.failures().add(path, &e),
            }
        }
        (files, folders)
    }

    fn read_folder(&self, app: &App, client: &Client, folder: &Path) -> Option<Group> {
        let found = client.read_dir(folder).map_err(|e| app.failures().add(folder, &e)).ok()?;
        let mut entries = Vec::new();
        for found in found.iter().filter(|e| self.all || !e.name().as_bytes().starts_with(b".")) {
            let path = folder.join(found.name());
            let meta = if self.needs_metadata(app) {
                match with_target(client, &path, found.file_type()) {
                    Ok(meta) => Some(meta),
                    Err(e) => {
                        app.failures().add(&path, &e);
                        continue;
                    }
                }
            } else {
                None
            };
            entries.push(Entry { shown: found.file_name(), path, meta });
        }
        Some(Group { folder: Some(folder.to_path_buf()), entries })
    }
}

fn with_target(client: &Client, path: &Path, kind: FileType) -> clio::Result<(Metadata, Option<PathBuf>)> {
    let meta = client.symlink_metadata(path)?;
    let target = (kind == FileType::Symlink).then(|| client.read_link(path)).transpose()?;
    Ok((meta, target))
}

impl Entry {
    fn is_dir(&self) -> bool {
        self.meta.as_ref().is_some_and(|(m, _)| m.is_dir())
    }

    fn record(&self) -> Option<FileRecord> {
        self.meta.as_ref().map(|(m, target)| FileRecord::new(&self.path, m, target.as_ref()))
    }
}

struct Printer<'a> {
    ls: &'a Ls,
    out: Output,
    owners: Owners,
    first: bool,
}

/// The columns before the name, and the widths that they need.
type Columns = [String; 6];

impl Printer<'_> {
    fn group(&mut self, group: &Group, headings: bool) -> Result<(), Stop> {
        if !std::mem::take(&mut self.first) {
            self.out.line("")?;
        }
        if let Some(folder) = group.folder.as_ref().filter(|_| headings) {
            self.out.name(folder)?;
            self.out.line(":")?;
        }
        let columns: Vec<Option<Columns>> = group.entries.iter().map(|e| self.columns(e)).collect();
        let mut widths = [0; 6];
        for row in columns.iter().flatten() {
            row.iter().zip(&mut widths).for_each(|(text, w)| *w = text.len().max(*w));
        }
        for (entry, columns) in group.entries.iter().zip(&columns) {
            if let Some([mode, links, user, group, size, time]) = columns {
                let [_, wl, wu, wg, ws, _] = widths;
                self.out.text(format!("{mode} {links:>wl$} {user:wu$} {group:wg$} {size:>ws$} {time} "))?;
            }
            self.out.name(&entry.shown)?;
            if let Some((_, Some(target))) = entry.meta.as_ref().filter(|_| self.ls.long) {
                self.out.text(" -> ")?;
                self.out.name(target)?;
            }
            self.out.line("")?;
        }
        Ok(())
    }

    fn columns(&self, entry: &Entry) -> Option<Columns> {
        let (m, _) = entry.meta.as_ref().filter(|_| self.ls.long)?;
        let size = if self.ls.human.human { human(m.len()) } else { m.len().to_string() };
        Some([
            mode_text(m.file_type(), m.mode()),
            m.nlink().to_string(),
            self.owners.user(m.uid()),
            self.owners.group(m.gid()),
            size,
            short(m.mtime_ns()),
        ])
    }
}
