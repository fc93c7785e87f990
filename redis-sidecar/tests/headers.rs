//! Each verb's header says what it is made of, what it takes and returns. Here it is held to it.

use redis_sidecar::library::{FOUNDATION, Library, MODULES, STRATEGIES, Source, VERBS};
use std::collections::BTreeSet;

const SECTIONS: [&str; 6] = ["KEYS", "ARGV", "Returns", "Uses", "Keeps", "Cost"];

fn verbs() -> impl Iterator<Item = Source> {
    VERBS.into_iter().map(|verb| verb.source)
}

fn verb(name: &str) -> Source {
    (verbs().find(|source| source.name == name)).unwrap_or_else(|| panic!("no verb {name}"))
}

fn header(source: &Source) -> Vec<&'static str> {
    source
        .code
        .lines()
        .take_while(|line| line.starts_with("--"))
        .collect()
}

/// The lines of one section, without their label.
fn section(source: &Source, name: &str) -> String {
    let label = format!("-- {name}");
    let lines = header(source);
    let first = lines.iter().position(|line| line.starts_with(&label));
    let first = first.unwrap_or_else(|| panic!("{}: no section {name}", source.name));
    let belongs = |line: &&&str| line.starts_with("--   ") || line.starts_with(&label);
    let rest = lines[first + 1..].iter().take_while(belongs);
    let mut text = lines[first][label.len()..].to_owned();
    for line in rest {
        text.push('\n');
        text.push_str(line.trim_start_matches('-'));
    }
    text
}

#[test]
fn every_header_has_its_parts() {
    for source in verbs() {
        for name in SECTIONS {
            assert!(
                !section(&source, name).trim().is_empty(),
                "{}: {name}",
                source.name
            );
        }
    }
}

#[test]
fn every_header_says_what_the_verb_is_for() {
    for source in verbs() {
        let purpose = format!("-- {}: ", source.name);
        assert!(source.code.starts_with(&purpose), "{}", source.name);
    }
}

/// `Worker.read(id)` is a use of the module `Worker`, which is the file `worker`.
fn uses(code: &str, file: &str) -> bool {
    let module = format!("{}{}.", file[..1].to_ascii_uppercase(), &file[1..]);
    let code = code.lines().filter(|line| !line.starts_with("--"));
    code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '.' && c != '_'))
        .any(|word| word.starts_with(&module))
}

#[test]
fn uses_names_the_modules_that_a_verb_calls() {
    for source in verbs() {
        let named = section(&source, "Uses").to_lowercase();
        let named: BTreeSet<&str> = named.split_whitespace().collect();
        let used = (FOUNDATION.iter().chain(&MODULES))
            .map(|module| module.name)
            .filter(|file| *file != "keys" && uses(source.code, file));
        assert_eq!(named, used.collect(), "{}", source.name);
    }
}

/// The words that stand first in a returned table: `return { 'admitted', … }`.
fn returned_words(code: &str) -> BTreeSet<&str> {
    (code.split("return { '").skip(1))
        .filter_map(|rest| rest.split('\'').next())
        .collect()
}

/// The words that the section `Returns` begins its lines with: `serve | drain, active`.
fn described_words(described: &str) -> BTreeSet<&str> {
    (described.lines())
        .flat_map(|line| {
            line.trim()
                .split("  ")
                .next()
                .unwrap_or_default()
                .split('|')
        })
        .filter_map(|words| words.trim().split(',').next())
        .collect()
}

#[test]
fn returns_describes_every_status_word() {
    for source in verbs() {
        let described = section(&source, "Returns");
        let described = described_words(&described);
        for word in returned_words(source.code) {
            assert!(
                described.contains(word),
                "{}: returns {word:?} unsaid",
                source.name
            );
        }
    }
}

#[test]
fn argv_goes_as_far_as_the_code_reads() {
    for source in verbs() {
        let highest = (1..=20)
            .rev()
            .find(|n| source.code.contains(&format!("ARGV[{n}]")));
        if let Some(highest) = highest {
            let label = format!("-- ARGV {highest} ");
            let lines = header(&source);
            assert!(
                lines.iter().any(|line| line.starts_with(&label)),
                "{}: {label}",
                source.name
            );
        }
    }
}

#[test]
fn no_decision_reads_all_workers() {
    let decisions = ["admit", "release", "observe", "heartbeat"].map(verb);
    let shared = (FOUNDATION.into_iter().chain(STRATEGIES).chain(MODULES))
        .filter(|module| module.name != "page");
    for source in decisions.into_iter().chain(shared) {
        for reading_all in ["HGETALL", "HKEYS", "HVALS", "HSCAN", "SCAN", "KEYS'"] {
            let found = source.code.contains(&format!("'{reading_all}"));
            assert!(!found, "{}: {reading_all}", source.name);
        }
    }
    assert!(!uses(verb("admit").code, "page"));
}

#[test]
fn a_library_is_named_by_its_text() {
    let (all, one) = (Library::new(&VERBS), Library::new(&VERBS[..1]));
    assert!(all.text().starts_with("#!lua name=berth_"));
    assert_ne!(all.function("admit"), one.function("admit"));
}
