//! A progress bar for transfers that take longer than a second, on a terminal.

use clio_core::sync::Mutex;
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
    /// Where the bar will be drawn; taken when it is, and none where it isn't wanted.
    target: Mutex<Option<ProgressDrawTarget>>,
    wanted: bool,
    total: u64,
    done: AtomicU64,
    bar: OnceLock<ProgressBar>,
}

impl Progress {
    /// Progress towards `total` bytes; 0 if that isn't known.
    pub(crate) fn new(total: u64) -> Self {
        Self::on(std::io::stderr().is_terminal().then(ProgressDrawTarget::stderr), total)
    }

    fn on(target: Option<ProgressDrawTarget>, total: u64) -> Self {
        let (wanted, target) = (target.is_some(), Mutex::new(target));
        Self { started: Instant::now(), target, wanted, total, done: AtomicU64::new(0), bar: OnceLock::new() }
    }

    /// So many more bytes are done.
    pub(crate) fn add(&self, bytes: u64) {
        if self.wanted {
            self.add_after(self.started.elapsed(), bytes);
        }
    }

    /// So many more bytes are done, this long after the start.
    fn add_after(&self, elapsed: Duration, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if elapsed > PATIENCE {
            self.bar.get_or_init(|| self.make_bar()).set_position(done);
        }
    }

    fn make_bar(&self) -> ProgressBar {
        let (length, template) = match self.total {
            0 => (None, "{spinner} {bytes}  {bytes_per_sec}  {elapsed}"),
            n => (Some(n), "{bar:32} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left"),
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let target = self.target.lock().take().unwrap_or_else(ProgressDrawTarget::hidden);
        ProgressBar::with_draw_target(length, target).with_style(style)
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

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::io;
    use std::sync::Arc;

    /// A terminal that keeps what is written to it.
    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<String>>);

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            100
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, s: &str) -> io::Result<()> {
            self.write_str(s)
        }
        fn write_str(&self, s: &str) -> io::Result<()> {
            self.0.lock().push_str(s);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            self.0.lock().push_str("[cleared]");
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn on_screen(total: u64) -> (Progress, Screen) {
        let screen = Screen::default();
        (Progress::on(Some(ProgressDrawTarget::term_like(Box::new(screen.clone()))), total), screen)
    }

    #[test]
    fn a_bar_comes_after_a_second_and_goes_at_the_end() {
        let (progress, screen) = on_screen(4 << 20);
        progress.add_after(PATIENCE, 1 << 20);
        progress.suspend(|| ());
        assert_eq!(*screen.0.lock(), "");
        progress.add_after(PATIENCE + Duration::from_nanos(1), 1 << 20);
        let drawn = screen.0.lock().clone();
        assert!(drawn.contains("2.00 MiB/4.00 MiB"), "also what was done before counts: {drawn}");
        drop(progress);
        assert!(screen.0.lock().ends_with("[cleared]"), "{:?}", screen.0.lock());
    }

    #[test]
    fn a_short_transfer_draws_nothing() {
        for total in [0, 1 << 20] {
            let (progress, screen) = on_screen(total);
            progress.add_after(Duration::ZERO, 1 << 20);
            drop(progress);
            assert_eq!(*screen.0.lock(), "");
        }
    }

    #[test]
    fn of_an_unknown_length_only_what_is_done_is_shown() {
        let (progress, screen) = on_screen(0);
        progress.add_after(2 * PATIENCE, 3 << 20);
        let drawn = screen.0.lock().clone();
        assert!(drawn.contains("3.00 MiB") && !drawn.contains("left"), "{drawn}");
    }
}
