//! `clio status`.

use crate::app::{App, is_missing};
use crate::report::{Stop, ended};
use clap::Args;
use clio::{Errno, LockCounts, StoreUri};
use serde::Serialize;
use std::path::Path;

/// Show whether the store can be used, and by whom it is served; exit code 1 if it can't be used
///
/// The locks are those at each target, of all clients.
#[derive(Args, Debug)]
pub(crate) struct Status {}

#[derive(Serialize)]
struct Shown<'a> {
    store: &'a str,
    /// `mem`, `dir` or `node`.
    kind: &'static str,
    /// `embedded`: the process that opens the store serves it; `node`: a daemon does.
    mode: &'static str,
    /// `ready`, `stopped` (no daemon runs; the first client starts one), `busy` (another process has it open), `missing` or
    /// `unusable`.
    state: &'static str,
    /// Why, where it isn't ready.
    detail: Option<String>,
    total_bytes: Option<u64>,
    free_bytes: Option<u64>,
    daemon: Option<Daemon>,
    /// Each target's.
    locks: Option<Vec<LockCounts>>,
}

/// The daemon that serves the store.
#[derive(Serialize)]
struct Daemon {
    pid: u32,
    release: String,
    uptime_seconds: u64,
    /// Without the one that asks.
    clients: u32,
}

impl Status {
    pub(crate) fn run(self, app: &App) -> Result<(), Stop> {
        let shown = look(app)?;
        let ready = matches!(shown.state, "ready" | "stopped");
        ended(print(app, &shown), ready)
    }
}

fn print(app: &App, shown: &Shown<'_>) -> Result<(), Stop> {
    if app.json() {
        return app.print_json(shown);
    }
    let mut out = app.out();
    out.text("store: ")?;
    out.name(shown.store)?;
    let kind = if shown.mode == shown.kind { shown.kind.into() } else { format!("{} ({})", shown.kind, shown.mode) };
    out.line(format!("\nkind:  {kind}\nstate: {}", shown.state))?;
    if let Some(detail) = &shown.detail {
        out.line(format!("why:   {detail}"))?;
    }
    if let (Some(total), Some(free)) = (shown.total_bytes, shown.free_bytes) {
        out.line(format!("space: {} free of {}", crate::show::human(free), crate::show::human(total)))?;
    }
    if let Some(locks) = &shown.locks {
        let sum = |figure: fn(&LockCounts) -> u64| locks.iter().map(figure).sum::<u64>();
        out.line(format!("locks: {} granted, {} waiting", sum(|l| l.granted), sum(|l| l.waiting)))?;
    }
    if let Some(daemon) = &shown.daemon {
        let Daemon { pid, release, uptime_seconds, clients } = daemon;
        out.line(format!("daemon: process {pid}, release {release}, up {uptime_seconds} s, {clients} clients"))?;
    }
    out.finish()
}

fn look(app: &App) -> Result<Shown<'_>, Stop> {
    let uri = app.store()?;
    let store = app.store_text()?;
    let (kind, missing) = match &uri {
        StoreUri::Mem { .. } => ("mem", false),
        StoreUri::Dir { path, .. } => ("dir", is_missing(path)),
        StoreUri::Node { path, .. } => ("node", is_missing(path)),
    };
    let mut shown = Shown {
        store,
        kind,
        mode: "embedded",
        state: "ready",
        detail: None,
        total_bytes: None,
        free_bytes: None,
        daemon: None,
        locks: None,
    };
    if let StoreUri::Node { path, .. } = &uri {
        shown.mode = "node";
        (shown.daemon, shown.locks) = daemon(path).unzip();
    }
    if missing {
        shown.state = "missing";
        shown.detail = Some("there is no store in this folder; make one with 'clio format'".into());
        return Ok(shown);
    }
    // To look is no reason to start one.
    if shown.mode == "node" && shown.daemon.is_none() {
        shown.state = "stopped";
        shown.detail = Some("no daemon runs; the first program that uses the store starts one".into());
        return Ok(shown);
    }
    match app.connect(store) {
        Ok(client) => {
            let (total, free) = client.space();
            (shown.total_bytes, shown.free_bytes) = (Some(total), Some(free));
            shown.locks = client.lock_counts().or(shown.locks);
        }
        Err(Stop::Failed { error, .. }) => {
            shown.state = if error.errno() == Errno::EBUSY { "busy" } else { "unusable" };
            shown.detail = Some(error.detail().to_string());
        }
        Err(other) => return Err(other),
    }
    Ok(shown)
}

/// How the daemon is, and its targets' locks, if one runs: asking starts none.
fn daemon(path: &Path) -> Option<(Daemon, Vec<LockCounts>)> {
    let figures = clio::node::Daemon::at(path).and_then(|daemon| daemon.figures()).ok()?;
    let clio::node::Status { pid, release, uptime_seconds, clients } = figures.status;
    let daemon = Daemon { pid, release, uptime_seconds, clients: clients.saturating_sub(1) };
    let counts = |t: &clio::node::TargetFigures| LockCounts {
        target: t.target,
        granted: t.locks_granted,
        waiting: t.locks_waiting,
    };
    Some((daemon, figures.targets.iter().map(counts).collect()))
}
