//! A progress bar for transfers that take longer than a second, on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Shorter transfers show nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// How far a transfer has come. Shared by its threads.
#[derive(Debug)]
pub(crate) struct Progress {
    started: Instant,
    wanted: bool,
    total: u64,
    done: AtomicU64,
    bar: OnceLock<ProgressBar>,
}

impl Progress {
    /// Progress towards `total` bytes; 0 if that isn't known.
    pub(crate) fn new(total: u64) -> Self {
        let wanted = std::io::stderr().is_terminal();
        Self { started: Instant::now(), wanted, total, done: AtomicU64::new(0), bar: OnceLock::new() }
    }

    /// So many more bytes are done.
    pub(crate) fn add(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if self.wanted && self.started.elapsed() > PATIENCE {
            self.bar.get_or_init(|| make_bar(self.total)).set_position(done);
        }
    }

    /// Runs `say`, which may print to stderr, with the bar out of the way.
    pub(crate) fn suspend(&self, say: impl FnOnce()) {
        match self.bar.get() {
            Some(bar) => bar.suspend(say),
            None => say(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

fn make_bar(total: u64) -> ProgressBar {
    let (length, template) = match total {
        0 => (None, "{spinner} {bytes}  {bytes_per_sec}  {elapsed}"),
        n => (Some(n), "{bar:32} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left"),
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr()).with_style(style)
}
