//! What serde says, in the words of who writes a settings file.

/// How a Rust type is called there, and how what it stands for is written.
const KINDS: [(&str, &str); 9] = [
    ("u8", "a whole number"),
    ("u16", "a whole number"),
    ("u32", "a whole number"),
    ("u64", "a whole number"),
    ("usize", "a whole number"),
    ("f64", "a number"),
    ("a sequence", "a list, as [\"a\", \"b\"]"),
    ("a map", "a section, as {name = value}"),
    ("a boolean", "true or false"),
];

/// The same without Rust's types, and with the form to write.
pub(crate) fn plain(message: &str) -> String {
    if message.contains("invalid IP address syntax") {
        return "expected a network, as 10.0.0.0/8; a single host is 10.0.0.7/32".into();
    }
    let Some((found, expected)) = message.rsplit_once(", expected ") else {
        return message.to_owned();
    };
    let known = KINDS.into_iter().find(|(kind, _)| *kind == expected);
    let form = match known {
        Some((_, form)) => form,
        None if expected.starts_with("struct ") => "a section, as {name = value}",
        None => expected,
    };
    format!("{found}, expected {form}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_named_and_types_are_not() {
        for (message, part) in [
            ("invalid type: string \"x\", expected u32", "a whole number"),
            ("invalid type: integer `5`, expected a sequence", "[\"a\""),
            ("invalid type: integer `5`, expected struct Limits", "{name"),
            ("invalid IP address syntax", "10.0.0.0/8"),
            ("unknown field `x`, expected one of `a`, `b`", "one of `a`"),
        ] {
            let plain = plain(message);
            assert!(plain.contains(part), "{plain}");
            assert!(
                !plain.contains("u32") && !plain.contains("struct"),
                "{plain}"
            );
        }
    }
}
