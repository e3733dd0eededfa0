//! Progress on a terminal: one bar with the counts so far. Silent elsewhere.

use std::io::IsTerminal as _;
use std::sync::Mutex;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use reports::{Check, Counts};

/// The bar of a run.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    counts: Mutex<Counts>,
}

impl Progress {
    /// A bar for `total` checks, drawn on standard error when that is a terminal.
    pub fn new(total: usize) -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(u64::try_from(total).ok(), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}  {elapsed}") {
            bar.set_style(style.progress_chars("━╸─"));
        }
        Self {
            bar,
            counts: Mutex::new(Counts::default()),
        }
    }

    /// One more check ended. An unexpected one is told at once.
    pub fn done(&self, check: &Check) {
        // Nothing panics while it holds the lock.
        let Ok(mut counts) = self.counts.lock() else {
            return;
        };
        counts.add(check);
        self.bar.inc(1);
        self.bar.set_message(format!(
            "{} pass  {} fail  {} refused  {} skipped",
            counts.pass, counts.fail, counts.refused, counts.skipped
        ));
        if !check.expected {
            self.bar.println(format!(
                "unexpected {}: {}  {}",
                check.outcome,
                check.id,
                check.reason.as_deref().unwrap_or_default()
            ));
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
