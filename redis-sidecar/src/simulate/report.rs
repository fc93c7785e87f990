//! What is printed: tables for people, which are Markdown too, or the same as JSON.

use super::run::Run;
use crate::plot::Chart;
use serde_json::{Map, Value, json};
use std::fmt;

#[derive(Debug, Default)]
pub struct Report {
    pub tables: Vec<Table>,
    pub notes: Vec<String>,
    pub charts: Vec<NamedChart>,
}

#[derive(Debug)]
pub struct NamedChart {
    /// Tells the files apart where there are several.
    pub name: &'static str,
    pub chart: Chart,
}

#[derive(Debug, Clone)]
pub struct Table {
    pub title: String,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Cell>>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    Text(String),
    Number { value: f64, digits: usize },
    Nothing,
}

impl Cell {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub fn tenths(value: f64) -> Self {
        Self::Number { value, digits: 1 }
    }

    pub fn whole(value: impl Into<f64>) -> Self {
        let value = value.into();
        Self::Number { value, digits: 0 }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Number { value, digits: 0 } => json!(*value as i64),
            Self::Number { value, .. } => json!(value),
            Self::Nothing => Value::Null,
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number { value, digits } => {
                let text = format!("{value:.digits$}");
                // What rounds to nothing has no sign.
                let nothing = text
                    .trim_start_matches('-')
                    .trim_matches(['0', '.'])
                    .is_empty();
                f.write_str(if nothing {
                    text.trim_start_matches('-')
                } else {
                    &text
                })
            }
            Self::Nothing => f.write_str("–"),
        }
    }
}

impl Table {
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        Self {
            title: title.into(),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// The usual figures of runs, side by side.
    pub fn of_runs(title: impl Into<String>, runs: &[(String, Run)]) -> Self {
        let mut table = Self::new(title, &["strategy", "mean ms", "p50 ms", "p99 ms", "per s"]);
        let workers = runs.iter().map(|(_, run)| run.workers).max().unwrap_or(0);
        let limited = runs.iter().any(|(_, run)| !run.lifetimes.is_empty());
        let denied = runs.iter().any(|(_, run)| run.denied > 0);
        table
            .columns
            .extend((1..=workers).map(|n| format!("w{n} %")));
        if denied {
            table.columns.push("denied".into());
        }
        if limited {
            table
                .columns
                .extend(["at limit at once", "recycles"].map(String::from));
        }
        for (name, run) in runs {
            let mut row = vec![Cell::text(name.as_str())];
            row.extend(latency_cells(run));
            row.push(Cell::tenths(run.per_s()));
            row.extend(run.all_shares().into_iter().map(Cell::tenths));
            if denied {
                row.push(Cell::whole(run.denied as f64));
            }
            if limited {
                row.push(Cell::whole(run.at_limit_max as f64));
                row.push(Cell::whole(run.recycles as f64));
            }
            table.rows.push(row);
        }
        table
    }

    fn has_words(&self, column: usize) -> bool {
        let mut cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.any(|cell| matches!(cell, Cell::Text(_)))
    }

    fn to_json(&self) -> Value {
        let keys: Vec<String> = self.columns.iter().map(|column| key(column)).collect();
        let object = |row: &Vec<Cell>| -> Map<String, Value> {
            let values = row.iter().map(Cell::to_json);
            keys.iter().cloned().zip(values).collect()
        };
        let rows: Vec<_> = self.rows.iter().map(object).collect();
        json!({ "title": self.title, "rows": rows })
    }
}

fn latency_cells(run: &Run) -> [Cell; 3] {
    match run.latency() {
        Some(latency) => [latency.mean_ms, latency.p50_ms, latency.p99_ms].map(Cell::tenths),
        None => [Cell::Nothing, Cell::Nothing, Cell::Nothing],
    }
}

/// A column's name as a JSON key: `w1 %` is `w1_percent`.
fn key(column: &str) -> String {
    column.replace('%', "percent").replace([' ', '/'], "_")
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| row.iter().map(Cell::to_string).collect())
            .collect();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| {
                let cells = rows.iter().filter_map(|row| row.get(column));
                let texts = cells.chain(self.columns.get(column));
                texts.map(|text| text.chars().count()).max().unwrap_or(0)
            })
            .collect();
        // Words stand to the left, figures to the right.
        let lines = std::iter::once(&self.columns).chain(&rows);
        writeln!(f, "{}\n", self.title)?;
        for (number, line) in lines.enumerate() {
            f.write_str("|")?;
            for (column, (text, width)) in line.iter().zip(&widths).enumerate() {
                match self.has_words(column) {
                    true => write!(f, " {text:<width$} |")?,
                    false => write!(f, " {text:>width$} |")?,
                }
            }
            writeln!(f)?;
            if number == 0 {
                f.write_str("|")?;
                for (column, width) in widths.iter().enumerate() {
                    let end = if self.has_words(column) { "-" } else { ":" };
                    write!(f, "{}{end}|", "-".repeat(width + 1))?;
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

impl Report {
    pub fn to_json(&self) -> Value {
        let tables: Vec<Value> = self.tables.iter().map(Table::to_json).collect();
        json!({ "tables": tables, "notes": self.notes })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, table) in self.tables.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            write!(f, "{table}")?;
        }
        for note in &self.notes {
            write!(f, "\n{note}\n")?;
        }
        Ok(())
    }
}
