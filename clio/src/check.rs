//! Looks for damage in a store, and repairs what can be repaired without guessing.

use crate::client::Client;
use crate::store::HEADER_FILE;
use clio_core::Result;
use clio_core::units::{Fid, TargetIndex};
use clio_lov::layout::FileLayout;
use clio_namespace::{Kind, Namespace};
use clio_targets::ObjectStore;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CheckReport {
    /// Inodes looked at.
    pub inodes: u64,
    /// Objects looked at.
    pub objects: u64,
    /// Data blocks whose checksums were compared.
    pub blocks: u64,
    /// Blocks that could not be judged: written at the time of a crash.
    pub unjudged: u64,
    /// What is wrong, one sentence each.
    pub findings: Vec<String>,
    /// What was repaired, one sentence each.
    pub repaired: Vec<String>,
}

impl CheckReport {
    /// Whether nothing is wrong, or all of it was repaired.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CheckReport { inodes, objects, blocks, unjudged, .. } = self;
        write!(f, "{inodes} inodes, {objects} objects, {blocks} blocks compared")?;
        if *unjudged > 0 {
            write!(f, ", {unjudged} blocks not judged (written at a crash)")?;
        }
        for finding in &self.findings {
            write!(f, "\nfound: {finding}")?;
        }
        for repair in &self.repaired {
            write!(f, "\nrepaired: {repair}")?;
        }
        match self.is_clean() {
            true => write!(f, "\nclean"),
            false => write!(f, "\n{} findings", self.findings.len()),
        }
    }
}

/// Directory entries read at a time.
const BATCH: usize = 1024;

/// The objects that belong to files.
struct Owned {
    stripes: BTreeMap<TargetIndex, BTreeSet<Fid>>,
    /// Files without a name, open or yet to be reclaimed.
    unlinked: BTreeSet<Fid>,
}

impl Owned {
    fn add(&mut self, file: Fid, layout: &[u8], report: &mut CheckReport) {
        if layout.is_empty() {
            return;
        }
        match FileLayout::decode(layout) {
            Ok(layout) => layout.stripes().for_each(|(stripe, target)| {
                self.stripes.entry(target).or_default().insert(stripe.fid(file));
            }),
            Err(e) => report.findings.push(format!("file {file}: {e}")),
        }
    }

    fn contains(&self, target: TargetIndex, object: Fid) -> bool {
        self.unlinked.contains(&object.file()) || self.stripes.get(&target).is_some_and(|s| s.contains(&object))
    }
}

impl Client {
    /// Checks names, layouts and objects against each other, and every block of data against its checksum. With
    /// `repair`, mends names, and moves objects that no file owns into the folder `aside` of their target (empty ones are
    /// removed); damaged data is reported, never "repaired".
    /// Nothing else may use the store meanwhile. Blocks.
    ///
    /// # Errors
    /// What keeps the check from going on; damage is no error but a finding.
    pub fn check(&self, repair: bool) -> Result<CheckReport> {
        self.check_process()?;
        let store = self.inner().store();
        self.inner().stack().sync_all().and(store.sync_names())?;
        let mut report = CheckReport::default();
        self.check_names(repair, &mut report)?;
        let owned = self.owned_objects(&mut report)?;
        self.check_objects(&owned, repair, &mut report)?;
        // What a crash of the machine has left in doubt has been looked at.
        store.flush_targets()?;
        Ok(report)
    }

    fn check_names(&self, repair: bool, report: &mut CheckReport) -> Result<()> {
        let names = &self.inner().store().local()?.namespace;
        let found = names.check()?;
        if repair && !found.is_clean() {
            let mended = names.repair(clio_core::clock::now_ns())?;
            report.repaired.extend(mended.iter().map(ToString::to_string));
        }
        let left = if repair { names.check()? } else { found };
        report.findings.extend(left.findings.iter().map(ToString::to_string));
        Ok(())
    }

    /// Every object that some file owns, by its layout.
    fn owned_objects(&self, report: &mut CheckReport) -> Result<Owned> {
        let names = &self.inner().store().local()?.namespace;
        let mut owned = Owned { stripes: BTreeMap::new(), unlinked: names.nameless()?.into_iter().collect() };
        let mut dirs = vec![Namespace::ROOT];
        while let Some(dir) = dirs.pop() {
            let mut after: Option<Vec<u8>> = None;
            loop {
                let batch = names.readdir(dir, after.as_deref(), BATCH)?;
                for entry in &batch {
                    match entry.kind {
                        Kind::Dir => dirs.push(entry.fid),
                        Kind::File => owned.add(entry.fid, &names.get_layout(entry.fid)?, report),
                        Kind::Symlink => {}
                    }
                }
                report.inodes += batch.len() as u64;
                match batch.len() < BATCH {
                    true => break,
                    false => after = batch.last().map(|e| e.name.clone()),
                }
            }
        }
        Ok(owned)
    }

    fn check_objects(&self, owned: &Owned, repair: bool, report: &mut CheckReport) -> Result<()> {
        let store = self.inner().store().clone();
        for (at, dir) in store.local()?.dirs.iter().enumerate() {
            let index = TargetIndex(at as u16);
            let mut stored = BTreeSet::new();
            for object in dir.store().objects() {
                let fid = match object {
                    Ok(fid) => fid,
                    Err(e) => {
                        report.findings.push(format!("target {at}: {e}"));
                        continue;
                    }
                };
                report.objects += 1;
                stored.insert(fid);
                if !owned.contains(index, fid) {
                    let what = format!("target {at}: object {fid} belongs to no file");
                    if !repair {
                        report.findings.push(what);
                        continue;
                    }
                    match dir.store().set_aside(fid) {
                        Err(e) => report.findings.push(format!("{what}: {e}")),
                        Ok(None) => report.repaired.push(format!("{what}: removed, it was empty")),
                        Ok(Some(to)) => report.repaired.push(format!("{what}: moved to {}", to.display())),
                    }
                    continue;
                }
                let verified = match dir.store().verify(fid) {
                    Ok(verified) => verified,
                    Err(e) => {
                        report.findings.push(format!("target {at}: object {fid}: {e}"));
                        continue;
                    }
                };
                report.blocks += verified.checked;
                report.unjudged += verified.unjudged;
                for damage in &verified.damage {
                    report
                        .findings
                        .push(format!("target {at}: object {fid} at byte {}: {}", damage.offset, damage.detail));
                }
                let unlisted = verified.damaged - verified.damage.len() as u64;
                if unlisted > 0 {
                    report.findings.push(format!("target {at}: object {fid}: {unlisted} more damaged blocks"));
                }
            }
            let lost: BTreeSet<Fid> = dir.store().lost().filter(|fid| !owned.contains(index, *fid)).collect();
            for fid in lost {
                let what = format!("target {at}: object {fid} belongs to no file, and only its checksums are left");
                let mended = if repair { dir.store().destroy(fid).map(|()| true) } else { Ok(false) };
                match mended {
                    Ok(true) => report.repaired.push(format!("{what}: removed")),
                    Ok(false) => report.findings.push(what),
                    Err(e) => report.findings.push(format!("{what}: {e}")),
                }
            }
            // Most were never written. Of one that was, and whose data is gone, there is a trace.
            for fid in owned.stripes.get(&index).into_iter().flatten().filter(|fid| !stored.contains(fid)) {
                if let Err(e) = dir.store().getattr(*fid) {
                    report.findings.push(format!("target {at}: object {fid}: {e}"));
                }
            }
        }
        for (target, objects) in owned.stripes.range(TargetIndex(store.targets().len() as u16)..) {
            let (n, first) = (objects.len(), objects.first().map_or(String::new(), Fid::to_string));
            let why = format!("target {}: the store has no such target, and files have {n} stripes on it", target.0);
            report.findings.push(format!("{why}, {first} the first; restore it and '{HEADER_FILE}' from copies"));
        }
        Ok(())
    }
}
