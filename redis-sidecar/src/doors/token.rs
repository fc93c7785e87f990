//! Tokens: shared secrets, one on each line of a file, so that the next can be added before the last
//! is taken away.

use super::watched::Watched;
use std::path::Path;
use subtle::{Choice, ConstantTimeEq};

/// What 128 random bits take in hexadecimal; `openssl rand -hex 32` gives twice that.
pub(crate) const TOKEN_BYTES_MIN: usize = 32;
/// Longer ones would not fit into a header beside others.
const TOKEN_BYTES_MAX: usize = 1024;

/// The tokens of one file.
#[derive(Debug)]
pub(crate) struct Tokens(Watched<Vec<Box<[u8]>>>);

impl Tokens {
    /// `setting` is named when the file cannot be used.
    pub(crate) fn open(setting: &'static str, file: &Path) -> Result<Self, String> {
        let path = file.to_owned();
        let read = move || {
            let text = std::fs::read_to_string(&path)
                .map_err(|error| format!("{setting}: {}: {error}", path.display()))?;
            parse(&text).map_err(|reason| format!("{setting}: {}: {reason}", path.display()))
        };
        Watched::new(vec![file.to_owned()], read).map(Self)
    }

    pub(crate) fn shares_one_with(&self, others: &Self) -> bool {
        let tokens = self.0.current();
        tokens.iter().any(|token| others.contain(token))
    }

    /// Takes the same time whichever token it is, or nearly is.
    pub(crate) fn contain(&self, presented: &[u8]) -> bool {
        let found = Choice::from(0);
        let tokens = self.0.current();
        let found = (tokens.iter()).fold(found, |found, token| found | token.ct_eq(presented));
        found.into()
    }
}

/// Lines; empty ones and what follows a `#` at a line's beginning are left out.
fn parse(text: &str) -> Result<Vec<Box<[u8]>>, String> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let tokens: Vec<Box<[u8]>> = lines.map(|line| line.as_bytes().into()).collect();
    if tokens.is_empty() {
        return Err("there is no token in it; `openssl rand -hex 32` makes one".into());
    }
    for token in &tokens {
        let bytes = token.len();
        if !(TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&bytes) {
            return Err(format!(
                "a token has {bytes} characters, and must have {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX}; \
                 `openssl rand -hex 32` makes one"
            ));
        }
        if !token.iter().all(u8::is_ascii_graphic) {
            return Err("a token must be of visible ASCII characters, without blanks".into());
        }
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "0123456789abcdef0123456789abcdef";
    const NEW: &str = "fedcba9876543210fedcba9876543210";

    #[test]
    fn every_line_is_a_token() {
        let tokens = parse(&format!("# rotated in May\n{OLD}\n\n{NEW}\r\n")).unwrap();
        assert_eq!(tokens, [OLD.as_bytes().into(), NEW.as_bytes().into()]);
    }

    #[test]
    fn a_token_that_could_be_guessed_is_refused_without_being_told() {
        let short = &OLD[1..];
        let message = parse(short).unwrap_err();
        assert!(
            message.contains("31") && message.contains("32"),
            "{message}"
        );
        assert!(!message.contains(short), "{message}");
        assert!(parse("").unwrap_err().contains("no token"));
        assert!(parse(&format!("{OLD} {NEW}")).is_err());
    }

    #[tokio::test]
    async fn a_file_that_changes_is_read_again() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), OLD).unwrap();
        let tokens = Tokens::open("tokens.filter_file", file.path()).unwrap();
        assert!(tokens.contain(OLD.as_bytes()) && !tokens.contain(NEW.as_bytes()));
        std::fs::write(file.path(), format!("{OLD}\n{NEW}\n")).unwrap();
        until(|| tokens.contain(NEW.as_bytes()));
        assert!(tokens.contain(OLD.as_bytes()), "both hold for a while");
        std::fs::write(file.path(), NEW).unwrap();
        until(|| !tokens.contain(OLD.as_bytes()));
        std::fs::write(file.path(), "oops").unwrap();
        // Longer than from one look to the next.
        tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
        assert!(tokens.contain(NEW.as_bytes()), "a bad file changes nothing");
    }

    fn until(condition: impl Fn() -> bool) {
        let started = std::time::Instant::now();
        while !condition() {
            assert!(started.elapsed().as_secs() < 20, "never");
            std::thread::yield_now();
        }
    }
}
