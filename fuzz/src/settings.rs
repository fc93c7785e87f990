//! The sidecar's settings: a file, and variables over it.

use redis_sidecar::settings::load;
use std::io::Write;

/// What stands before this line is the file; each line after it is a variable.
const VARIABLES: &str = "\n# variables\n";

pub(crate) fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (text, variables) = text.split_once(VARIABLES).unwrap_or((&text, ""));
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("a written file");
    let variables = variables
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    match load(Some(file.path()), variables) {
        Ok(loaded) => {
            let shown = loaded.describe();
            assert!(shown.contains("listen = "), "{shown}");
            let settings = &loaded.settings;
            assert!(!settings.listen.is_empty() || !settings.listeners.is_empty());
            for (pool, policy) in &settings.pools {
                assert_eq!(policy.validate(), Ok(()), "{pool}");
            }
        }
        // A start that fails says why.
        Err(error) => assert!(error.to_string().len() > 10, "{error}"),
    }
}
