//! Tables and numbers as the page shows them.

use std::fmt;

pub(super) struct Table {
    lines: Vec<String>,
}

impl Table {
    pub(super) fn new(head: &[&str]) -> Self {
        Self {
            lines: vec![
                format!("| {} |", head.join(" | ")),
                format!("|{}", "---|".repeat(head.len())),
            ],
        }
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        self.lines.push(format!("| {} |", cells.join(" | ")));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.lines.join("\n"))
    }
}

/// 1234567 is 1,234,567; what is small keeps three digits that count.
pub(super) fn grouped(figure: f64) -> String {
    if !figure.is_finite() {
        return "–".into();
    }
    let digits = match figure.abs() {
        size if size >= 100.0 || size.fract() == 0.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{figure:.digits$}");
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if rest.is_empty() {
        grouped
    } else {
        format!("{grouped}.{rest}")
    }
}
