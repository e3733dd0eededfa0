//! Progress on a terminal: runs, simulated hours, situations met, failures. Silent elsewhere, but
//! for failures.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::plan::Span;
use super::tally::Tally;
use super::worker::Failed;

/// The bar of a sweep.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar for a sweep of this span.
    pub fn new(span: Span) -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let (length, template) = match span {
            Span::Runs(runs) => (Some(runs), "{bar:30} {pos}/{len} runs  {msg}  {elapsed}"),
            Span::Time(_) => (None, "{spinner} {pos} runs  {msg}  {elapsed}"),
        };
        let bar = ProgressBar::with_draw_target(length, target);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        bar.enable_steady_tick(Duration::from_secs(1));
        Self { bar }
    }

    /// One more run is done. What went wrong in it is told at once.
    pub fn done(&self, tally: &Tally, failure: Option<&Failed>) {
        self.bar.inc(1);
        let (met, situations) = tally.met();
        self.bar.set_message(format!(
            "{}  {met}/{situations} situations  {} failed",
            simulated(tally.simulated_ms),
            tally.failed
        ));
        if let Some(failure) = failure {
            self.bar.suspend(|| println!("{}\n", failure.text));
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Simulated time, for people.
pub(super) fn simulated(ms: u64) -> String {
    let (minutes, rest) = (ms / 60_000, ms % 60_000);
    if minutes < 60 {
        format!("{minutes}.{} simulated minutes", rest / 6_000)
    } else {
        let (hours, rest) = (minutes / 60, minutes % 60);
        format!("{hours}.{} simulated hours", rest / 6)
    }
}
