//! The log. Whatever is in a line, it stays one line: no text from outside can begin another or speak to
//! a terminal.

use crate::settings::LogFormat;
use std::io::{self, Write};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::{EnvFilter, fmt};

/// Longer lines are cut: nothing worth reading is as long.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// Writes to standard error, at the level of `RUST_LOG`.
pub fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(Escaped(io::stderr))
        // Whoever reads the log may go away; that must not end anything else.
        .log_internal_errors(false);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}

/// A writer that gets one line at a time and escapes what is not to be read.
#[derive(Debug, Clone, Copy)]
pub struct Escaped<W>(pub W);

impl<'a, W: Fn() -> O, O: Write> MakeWriter<'a> for Escaped<W> {
    type Writer = Escaped<O>;

    fn make_writer(&'a self) -> Escaped<O> {
        Escaped(self.0())
    }
}

impl<O: Write> Write for Escaped<O> {
    /// One event, with its end of line.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.0.write_all(&line(event))?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn line(event: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(event.strip_suffix(b"\n").unwrap_or(event));
    let mut line = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        if line.len() >= LINE_BYTES_MAX {
            line.push('…');
            break;
        }
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line.push('\n');
    line.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_logged_stays_on_its_line_and_says_nothing_to_a_terminal() {
        let hostile = "a\r\n2026 ERROR forged\x1b[2J\x07\u{9b}31m\x7f\n";
        let written = String::from_utf8(line(hostile.as_bytes())).unwrap();
        let escaped = r"a\r\n2026 ERROR forged\u{1b}[2J\u{7}\u{9b}31m\u{7f}";
        assert_eq!(written, format!("{escaped}\n"));
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let written = line(&[b'x'; 100_000]);
        assert!(written.len() < LINE_BYTES_MAX + 8);
        assert!(written.ends_with("…\n".as_bytes()));
    }

    #[test]
    fn a_json_line_stays_json() {
        let written = line("{\"text\":\"a\\r\\nb\"}\n".as_bytes());
        assert!(serde_json::from_slice::<serde_json::Value>(&written).is_ok());
    }
}
