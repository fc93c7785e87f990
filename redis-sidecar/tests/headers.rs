//! Each script's header says what it is made of, what it takes and returns. Here it is held to it.

use redis_sidecar::scripts::{self, Source};
use std::collections::BTreeSet;

const SECTIONS: [&str; 6] = ["KEYS", "ARGV", "Returns", "Uses", "Keeps", "Cost"];

/// The verb's own file: the last part of the text that Redis gets.
fn own_text(source: &Source) -> &'static str {
    let start = format!("-- {}: ", source.verb);
    let at = source
        .code
        .find(&start)
        .unwrap_or_else(|| panic!("{}: no purpose", source.verb));
    &source.code[at..]
}

fn header(source: &Source) -> Vec<&'static str> {
    own_text(source)
        .lines()
        .take_while(|line| line.starts_with("--"))
        .collect()
}

/// The lines of one section, without their label.
fn section(source: &Source, name: &str) -> String {
    let label = format!("-- {name}");
    let lines = header(source);
    let first = lines.iter().position(|line| line.starts_with(&label));
    let first = first.unwrap_or_else(|| panic!("{}: no section {name}", source.verb));
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
    for source in scripts::ALL {
        for name in SECTIONS {
            assert!(
                !section(&source, name).trim().is_empty(),
                "{}: {name}",
                source.verb
            );
        }
    }
}

#[test]
fn uses_names_the_parts_a_script_is_made_of() {
    for source in scripts::ALL {
        let named = section(&source, "Uses");
        let named: BTreeSet<&str> = named.split_whitespace().collect();
        let made_of: BTreeSet<&str> = (source.parts.iter())
            .map(|part| match part.split_once('/') {
                Some(("strategies", _)) => "strategies",
                Some((_, name)) => name,
                None => panic!("{part}: a part is in a directory"),
            })
            .collect();
        assert_eq!(named, made_of, "{}", source.verb);
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
    for source in scripts::ALL {
        let described = section(&source, "Returns");
        let described = described_words(&described);
        for word in returned_words(own_text(&source)) {
            assert!(
                described.contains(word),
                "{}: returns {word:?} unsaid",
                source.verb
            );
        }
    }
}

#[test]
fn argv_goes_as_far_as_the_code_reads() {
    for source in scripts::ALL {
        let highest = (1..=20)
            .rev()
            .find(|n| own_text(&source).contains(&format!("ARGV[{n}]")));
        if let Some(highest) = highest {
            let label = format!("-- ARGV {highest} ");
            let lines = header(&source);
            assert!(
                lines.iter().any(|line| line.starts_with(&label)),
                "{}: {label}",
                source.verb
            );
        }
    }
}

#[test]
fn no_decision_reads_all_workers() {
    let decisions = [
        scripts::ADMIT,
        scripts::RELEASE,
        scripts::OBSERVE,
        scripts::HEARTBEAT,
    ];
    for source in decisions {
        for reading_all in ["HGETALL", "HKEYS", "HVALS", "SCAN", "KEYS'", "pairs(redis"] {
            let found = source.code.contains(&format!("'{reading_all}"));
            assert!(!found, "{}: {reading_all}", source.verb);
        }
    }
}

#[test]
fn scripts_begin_with_the_shebang() {
    for source in scripts::ALL {
        assert!(source.code.starts_with("#!lua"), "{}", source.verb);
    }
}
