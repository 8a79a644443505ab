//! What people see: tables and colour on a terminal, tab-separated lines elsewhere.
//!
//! Everything that comes out of a store is cleaned before it is shown: a memory's text is data, and data must not move the
//! cursor or recolour the terminal of whoever reads it.

mod views;

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table, TableComponent, presets};

/// Characters of a text that a table shows.
const SHOWN_CHARS: usize = 160;
/// What is narrow enough for every terminal.
const NARROW: u16 = 80;

/// How to write for whoever reads the standard output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Screen {
    tables: bool,
    colour: bool,
    width: u16,
}

/// The columns of a table: a name, and whether they hold numbers.
type Columns<'a> = &'a [(&'a str, Kind)];

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Number,
}
use Kind::Number;

impl Screen {
    /// Tables where the standard output is a terminal, colour where it is and nobody asked for none.
    pub(crate) fn detect() -> Self {
        let tables = std::io::stdout().is_terminal();
        let width = Table::new().width().filter(|_| tables).unwrap_or(NARROW);
        Self { tables, colour: tables && colour_allowed(), width }
    }

    /// Tables wherever the output goes, narrow enough for every terminal.
    pub(crate) fn always_tables(self) -> Self {
        Self { tables: true, width: self.width.min(NARROW), ..self }
    }

    /// A line that stands out.
    pub(crate) fn heading(self, text: &str) -> String {
        if self.colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Rows under a header.
    pub(crate) fn table(self, columns: Columns<'_>, rows: Vec<Vec<String>>) -> String {
        if !self.tables {
            let mut lines = columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join("\t");
            for row in rows {
                let cells: Vec<_> = row.iter().map(|cell| one_line(cell)).collect();
                let _ = write!(lines, "\n{}", cells.join("\t"));
            }
            return lines;
        }
        let mut table = Table::new();
        table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic).set_width(self.width);
        for lines in [TableComponent::HorizontalLines, TableComponent::MiddleIntersections] {
            table.remove_style(lines);
        }
        if self.colour {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        table.set_header(columns.iter().map(|(name, _)| Cell::new(name).add_attribute(Attribute::Bold)));
        table.add_rows(rows.iter().map(|row| row.iter().map(|cell| shortened(&one_line(cell))).collect::<Vec<_>>()));
        for (column, (_, kind)) in table.column_iter_mut().zip(columns) {
            if *kind == Number {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.to_string()
    }

    /// Names with their values, one a line.
    pub(crate) fn pairs(self, pairs: &[(&str, String)]) -> String {
        let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let lines: Vec<_> = pairs.iter().map(|(name, value)| format!("{name:width$}  {}", one_line(value))).collect();
        lines.join("\n")
    }
}

/// The word that opens an error message, red where the standard error shows colour.
pub(crate) fn error_word() -> &'static str {
    if std::io::stderr().is_terminal() && colour_allowed() { "\x1b[1;31merror:\x1b[0m" } else { "error:" }
}

/// Writes a text and a newline to the standard output.
pub(crate) fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.write_all(b"\n")?;
    out.flush()
}

/// The convention of no-color.org, and terminals that know no escapes.
fn colour_allowed() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// A span of time in the unit that suits it.
pub(crate) fn time(elapsed: Duration) -> String {
    let micros = elapsed.as_secs_f64() * 1e6;
    if micros < 1e3 {
        format!("{micros:.0} us")
    } else if micros < 1e6 {
        format!("{:.2} ms", micros / 1e3)
    } else {
        format!("{:.2} s", micros / 1e6)
    }
}

/// A text without anything that a terminal would obey, its line breaks kept.
fn clean(text: &str) -> String {
    let harmless = |c: char| {
        if (c.is_control() && c != '\n' && c != '\t') || is_direction(c) { '\u{fffd}' } else { c }
    };
    text.chars().map(harmless).collect()
}

/// Marks that make a terminal show characters in another order than they stand.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn one_line(text: &str) -> String {
    clean(text).replace(['\n', '\t'], " ")
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or(text)),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::Kind::Text;
    use super::*;

    const PLAIN: Screen = Screen { tables: false, colour: false, width: NARROW };
    const TABLES: Screen = Screen { tables: true, colour: false, width: NARROW };

    #[test]
    fn a_plain_table_is_one_tab_separated_line_a_row_whatever_the_cells_hold() {
        let rows = vec![vec!["1".to_owned(), "two\nlines\tand \x1b[31ma tab".to_owned()]];
        assert_eq!(PLAIN.table(&[("n", Number), ("text", Text)], rows), "n\ttext\n1\ttwo lines and \u{fffd}[31ma tab");
    }

    #[test]
    fn a_table_fits_80_columns_and_carries_no_escape_without_colour() {
        let row = |n: usize| vec![n.to_string(), "word ".repeat(40 * n), "tag ".repeat(n)];
        let table = TABLES.table(&[("n", Number), ("text", Text), ("tags", Text)], (1..4).map(row).collect());
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
        assert!(!table.contains('\x1b'), "{table}");
        let coloured = Screen { colour: true, ..TABLES };
        assert!(coloured.table(&[("n", Number)], vec![]).contains('\x1b'));
        assert!(coloured.heading("x").contains('\x1b'));
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown_and_not_obeyed() {
        assert_eq!(clean("a\x1b]0;title\x07b\r\nc\u{202e}d\u{9b}1m"), "a\u{fffd}]0;title\u{fffd}b\u{fffd}\nc\u{fffd}d\u{fffd}1m");
    }

    #[test]
    fn time_is_told_in_the_unit_that_suits_it() {
        assert_eq!(time(Duration::from_nanos(1_700)), "2 us");
        assert_eq!(time(Duration::from_micros(1_500)), "1.50 ms");
        assert_eq!(time(Duration::from_millis(2_500)), "2.50 s");
    }
}
