//! Numbers, durations and tables for people.

use std::time::Duration;

/// A duration as people say it: `2 h 14 min`, `3 min 20 s`, `1.5 s`.
pub(super) fn duration(d: Duration) -> String {
    let s = d.as_secs();
    match s {
        0..10 => format!("{:.1} s", d.as_secs_f64()),
        10..60 => format!("{s} s"),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        3600..86_400 => format!("{} h {} min", s / 3600, s % 3600 / 60),
        _ => format!("{} d {} h", s / 86_400, s % 86_400 / 3600),
    }
}

/// A number of things: `1 run`, `2 runs`.
pub(super) fn counted(n: u64, word: &str) -> String {
    format!("{n} {word}{}", if n == 1 { "" } else { "s" })
}

/// A number with four significant digits.
pub(super) fn number(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return format!("{x}");
    }
    let size = x.abs();
    if !(1e-4..1e7).contains(&size) {
        return format!("{x:.3e}");
    }
    let text = match size {
        1000.0.. => format!("{x:.0}"),
        100.0.. => format!("{x:.1}"),
        10.0.. => format!("{x:.2}"),
        1.0.. => format!("{x:.3}"),
        0.1.. => format!("{x:.4}"),
        0.01.. => format!("{x:.5}"),
        0.001.. => format!("{x:.6}"),
        _ => format!("{x:.7}"),
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Text from outside, made harmless for a terminal: control characters become pictures.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Rows under their headings, columns as wide as they need.
pub(super) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(headings.get(column).map(|h| h.len())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let body = rows.iter().map(|row| line(row.iter().map(String::as_str).collect()));
    std::iter::once(line(headings.to_vec())).chain(body).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_significant_digits() {
        let shown = [0.0, 12.5, 0.123_456, 1234.56, 0.001_234_56, 3.0, 1e-9, 1.5e12, f64::NAN].map(number);
        assert_eq!(shown, ["0", "12.5", "0.1235", "1235", "0.001235", "3", "1.000e-9", "1.500e12", "NaN"]);
    }

    #[test]
    fn durations_are_said_as_people_say_them() {
        let shown = [1.5, 42.0, 200.0, 8040.0, 100_000.0].map(|s| duration(Duration::from_secs_f64(s)));
        assert_eq!(shown, ["1.5 s", "42 s", "3 min 20 s", "2 h 14 min", "1 d 3 h"]);
    }

    #[test]
    fn a_name_cannot_move_the_cursor() {
        assert_eq!(plain("a\x1b[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
    }
}
