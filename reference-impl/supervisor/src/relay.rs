//! The child's output in the broker's log: whole lines, printable, short, and only so many of them.

use std::time::Duration;

use host::text::visible;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;

/// Bytes of a line that are kept.
const MAX_LINE_BYTES: usize = 4096;
/// Lines per window.
const LINES: u32 = 200;
const WINDOW: Duration = Duration::from_secs(10);

/// Lines out of bytes. Holds at most one line.
#[derive(Debug)]
struct Lines<R> {
    from: R,
    chunk: Box<[u8; 4096]>,
    filled: usize,
    read: usize,
    line: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    fn new(from: R) -> Self {
        Self {
            from,
            chunk: Box::new([0; 4096]),
            filled: 0,
            read: 0,
            line: Vec::new(),
        }
    }

    /// The next line, cut; `None` at the end. May be dropped between two polls without loss.
    async fn next(&mut self) -> Option<String> {
        loop {
            while self.read < self.filled {
                let byte = self.chunk[self.read];
                self.read += 1;
                if byte == b'\n' {
                    return Some(self.take());
                }
                if self.line.len() < MAX_LINE_BYTES {
                    self.line.push(byte);
                }
            }
            // An output that can't be read has ended.
            let read = self.from.read(&mut self.chunk[..]).await.unwrap_or(0);
            (self.read, self.filled) = (0, read);
            if read == 0 {
                return (!self.line.is_empty()).then(|| self.take());
            }
        }
    }

    fn take(&mut self) -> String {
        let line = printable(&String::from_utf8_lossy(&self.line));
        self.line.clear();
        line
    }
}

/// What a terminal only shows, on one line; a tab is a space.
fn printable(text: &str) -> String {
    let spaced = visible(text).map(|c| if c == '\t' { ' ' } else { c });
    spaced.filter(|c| !c.is_control()).collect()
}

/// Which lines are shown.
#[derive(Debug)]
struct Budget {
    since: Instant,
    shown: u32,
    suppressed: u64,
}

impl Budget {
    fn new(now: Instant) -> Self {
        Self {
            since: now,
            shown: 0,
            suppressed: 0,
        }
    }

    /// What the last window suppressed, once that is over.
    fn turn(&mut self, now: Instant) -> Option<u64> {
        if now < self.since + WINDOW {
            return None;
        }
        let suppressed = self.suppressed;
        *self = Self::new(now);
        (suppressed > 0).then_some(suppressed)
    }

    fn admits(&mut self) -> bool {
        let admits = self.shown < LINES;
        self.shown += u32::from(admits);
        self.suppressed += u64::from(!admits);
        admits
    }
}

/// Relays both outputs of a child until both have ended.
pub async fn relay(
    stdout: impl AsyncRead + Unpin,
    stderr: impl AsyncRead + Unpin,
    mut show: impl FnMut(&str),
) {
    let (mut out, mut err) = (Lines::new(stdout), Lines::new(stderr));
    let (mut out_open, mut err_open) = (true, true);
    let mut budget = Budget::new(Instant::now());
    let tell = |show: &mut dyn FnMut(&str), suppressed: u64| {
        show(&format!("suppressed={suppressed} lines of the last window"));
    };
    while out_open || err_open {
        let over = budget.since + WINDOW;
        let line = tokio::select! {
            biased;
            () = tokio::time::sleep_until(over), if budget.suppressed > 0 => None,
            line = err.next(), if err_open => { err_open = line.is_some(); line }
            line = out.next(), if out_open => { out_open = line.is_some(); line }
        };
        if let Some(suppressed) = budget.turn(Instant::now()) {
            tell(&mut show, suppressed);
        }
        if let Some(line) = line.filter(|line| !line.is_empty())
            && budget.admits()
        {
            show(&line);
        }
    }
    if budget.suppressed > 0 {
        tell(&mut show, budget.suppressed);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[rstest]
    #[case("plain", "plain")]
    #[case("\u{1b}[32m INFO\u{1b}[0m a\tb", " INFO a b")]
    #[case("a\u{0}b\r\u{9b}", "ab")]
    fn lines_are_printable(#[case] dirty: &str, #[case] clean: &str) {
        assert_eq!(printable(dirty), clean);
    }

    #[tokio::test(start_paused = true)]
    async fn lines_are_cut_and_the_next_one_is_whole() {
        let long = format!("{}\nnext\nlast", "x".repeat(100_000));
        let mut seen = Vec::new();
        relay(long.as_bytes(), &b""[..], |line| seen.push(line.to_owned())).await;
        assert_eq!(seen[0].len(), MAX_LINE_BYTES);
        assert_eq!(seen[1..], ["next", "last"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_shows_so_many_lines_of_both_and_counts_the_rest() {
        let (mut writer, stdout) = tokio::io::duplex(1 << 20);
        let (shown, mut lines) = tokio::sync::mpsc::unbounded_channel();
        let relaying = tokio::spawn(relay(stdout, &b"err\n"[..], move |line| {
            shown.send(line.to_owned()).unwrap();
        }));
        writer
            .write_all("x\n".repeat(249).as_bytes())
            .await
            .unwrap();
        tokio::time::sleep(WINDOW + Duration::from_secs(1)).await;
        let mut seen = Vec::new();
        while let Ok(line) = lines.try_recv() {
            seen.push(line);
        }
        assert_eq!(seen.len(), 201, "{:?}", seen.last());
        assert_eq!(seen[200], "suppressed=50 lines of the last window");
        writer.write_all(b"again\n").await.unwrap();
        drop(writer);
        relaying.await.unwrap();
        assert_eq!(lines.recv().await.as_deref(), Some("again"));
        assert_eq!(lines.recv().await, None);
    }
}
