//! Which lines of a log an error begins at. It guesses by words, as a log has no levels that all programs share: in doubt a
//! line with such a word is one, but not where the word names a quantity (`val_error: 0.1`, `error=0.03`), counts nothing
//! (`0 errors`, `no error`), or is part of a name (`error.log`, `on-error`). It knows nothing of what follows such a line.

use std::{borrow::Cow, ops::Range, sync::LazyLock};

use regex::bytes::Regex;

/// So much before a word is looked at.
const BEFORE: usize = 40;
/// A name that goes on for longer behind a word is cut, so that a line of such words is not gone through for each.
const NAME: usize = 256;

/// Whatever may begin an error. Most of what it finds does not.
pub(super) static CANDIDATE: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"(?i-u)error|exception|fatal|panic|critical|killed|oom|segfault|segmentation fault|out of memory|core dumped|traceback \(most recent call last",
    )
});

/// What follows the name of a quantity, or of an error that is none.
static VALUE: LazyLock<Regex> = LazyLock::new(|| {
    compile(concat!(
        r#"(?i-u)^["']?[ \t]*(?:"#,
        // A fraction or nothing, after a colon or a gap: `error: 0.1`, `error 1e-3`, `"error": 0`.
        r"(?:[:=][ \t]*)?(?:tensor\(|\[)?[+-]?(?:[0-9]*\.[0-9]+(?:e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+|0)%?(?:[ \t\r,;|/)\]}]|$)",
        // Another number that nothing is said about, or a word for nothing: `error=3, loss=2`, `"error": null`.
        r#"|[:=][ \t]*(?:[+-]?[0-9]+%?|[+-]?nan|[+-]?inf|none|null|false|""|''|\[\]|\{\})[ \t]*(?:[\r,;|)\]}]|$))"#,
    ))
});

/// What makes the word before it a part of a quantity's or a thing's name.
static NOUN: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"(?i-u)^[ \t]+(?:rates?|ratios?|bars?|terms?|margins?|tolerances?|bounds?|budgets?|handling|handlers?|logs?|logging|levels?|reporting|corrections?|checking|analysis|metrics?|functions?|norms?|curves?|matrix|estimates?|percentages?|threshold|count)\b",
    )
});

/// What makes the word after it none: nothing is counted, or a quantity named.
static NOTHING: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"(?i-u)(?:^|[^a-z0-9_.=])(?:0|no|non|zero|any|if|on|not(?: an)?|without(?: an| any)?|above|squared|absolute|mean|relative|average|median|standard|reconstruction|quantization|prediction|approximation|rounding|percentage)[ \t]+$",
    )
});

/// A key whose value says how bad a line is: `level=error`, `"severity": "ERROR"`.
static LEVEL: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r#"(?i-u)(?:^|[^a-z0-9_.-])(?:level|levelname|lvl|severity|status|state|type)(?:=["']?|["'][ \t]*:[ \t]*["'])$"#,
    )
});

/// Where a word stands that may be the value of a key.
static KEYED: LazyLock<Regex> = LazyLock::new(|| compile(r#"(?-u)(?:=["']?|["'][ \t]*:[ \t]*["'])$"#));

/// Colours and the like.
static ANSI: LazyLock<Regex> = LazyLock::new(|| compile(r"(?-u)\x1b\[[0-9;:?]*[ -/]*[@-~]"));

#[expect(clippy::expect_used, reason = "the patterns are fixed, and the tests compile them")]
fn compile(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern of this file")
}

/// Where in a line an error begins, if one does at one of its first `within` bytes; a little too early in a line with
/// colours.
///
/// These begin one:
/// - `Traceback (most recent call last)`;
/// - the words `error`, `exception`, `fatal`, `panicked`, `panic:`, `killed`, `OOM`, `segfault`, `segmentation fault`,
///   `out of memory`, `core dumped`, whatever their case; `critical` as a level (`CRITICAL`, `critical:`);
/// - names that end with `Error` or `Exception` (`RuntimeError`), and those in capitals that hold `ERROR` (`CUDA_ERROR_…`).
///
/// A word is none if it has a number of its own (`error: 0.1`), is counted as nothing (`0 error`, `no error`), is part of a
/// name (`val_error`, `error_rate`, `errors`, `error.log`, `non-fatal`, `error rate`), or is a setting (`log_level=ERROR`).
pub(super) fn error_begins(line: &[u8], within: usize) -> Option<usize> {
    let (first, rest) = line.split_at_checked(within).unwrap_or((line, &[]));
    let plain = ANSI.replace_all(first, b"");
    let within = plain.len();
    let line = match plain {
        Cow::Borrowed(_) => Cow::Borrowed(line),
        Cow::Owned(first) => Cow::Owned([&first, rest].concat()),
    };
    let words = CANDIDATE.find_iter(&line).take_while(|word| word.start() < within);
    words.map(|word| word.range()).find(|word| begins(&line, word)).map(|word| word.start)
}

fn begins(line: &[u8], word: &Range<usize>) -> bool {
    let text = part(line, word.clone());
    let (before, after) = (part(line, 0..word.start), part(line, word.end..line.len()));
    let before = part(before, before.len().saturating_sub(BEFORE)..before.len());
    let (lead, trail) = (named(before.iter().rev()), named(after.iter()));
    let whole = lead == 0 && trail == 0;
    match text.to_ascii_lowercase().as_slice() {
        b"error" | b"exception" if whole => is_said(before, text, after),
        b"error" | b"exception" => {
            let name = part(line, word.start - lead..word.end + trail);
            is_named(name, trail, text)
                && !is_place(before, after, lead)
                && !VALUE.is_match(part(after, trail..after.len()))
        }
        b"fatal" | b"killed" => whole && is_said(before, text, after),
        b"critical" if whole => {
            let level = text == b"CRITICAL" || after.starts_with(b":");
            level && is_said(before, text, after)
        }
        b"panic" if after.starts_with(b"ked") => lead == 0 && trail == 3,
        b"panic" => whole && after.starts_with(b":"),
        b"oom" => whole && !VALUE.is_match(after),
        b"segfault" | b"segmentation fault" | b"out of memory" | b"core dumped" => whole,
        b"critical" => false,
        _ => lead == 0,
    }
}

/// Whether a word that stands alone speaks of an error.
fn is_said(before: &[u8], word: &[u8], after: &[u8]) -> bool {
    let next = after.first().copied().unwrap_or(b' ');
    let is_call =
        next == b'(' && (word.first().is_some_and(u8::is_ascii_lowercase) || after.starts_with(b"(s)"));
    // Names are joined by hyphens; words in capitals are a level between others: `12:00-ERROR-message`.
    let follows = |bytes: &mut dyn Iterator<Item = &u8>| {
        bytes.next() == Some(&b'-') && bytes.next().is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'-')
    };
    let is_joined = !word.iter().all(u8::is_ascii_uppercase)
        && (follows(&mut after.iter()) || follows(&mut before.iter().rev()));
    let is_value = KEYED.is_match(before) && !LEVEL.is_match(before);
    !(is_call
        || is_joined
        || is_value
        || is_place(before, after, 0)
        || VALUE.is_match(after)
        || NOUN.is_match(after)
        || NOTHING.is_match(before))
}

/// Whether a longer name is one of an error: `RuntimeError`, `CUDA_ERROR_OUT_OF_MEMORY`.
fn is_named(name: &[u8], trail: usize, word: &[u8]) -> bool {
    let is_quantity = ["Squared", "Absolute", "Percentage"]
        .iter()
        .any(|q| memchr::memmem::find(name, q.as_bytes()).is_some());
    let begins_large = name.first().is_some_and(u8::is_ascii_uppercase);
    let is_class = trail == 0 && word.first() == Some(&b'E') && !name.ends_with(&[b"_", word].concat());
    let is_constant = name.contains(&b'_') && !name.iter().any(u8::is_ascii_lowercase);
    begins_large && !is_quantity && (is_constant || (is_class && word.iter().any(u8::is_ascii_lowercase)))
}

/// Whether a name is part of a path, a file or a member: `utils/error`, `error.log`, `logger.error`. A class may be in a
/// module.
fn is_place(before: &[u8], after: &[u8], lead: usize) -> bool {
    let ends = part(before, 0..before.len().saturating_sub(lead));
    let mut back = ends.iter().rev();
    let is_member = match back.next() {
        Some(b'/' | b'\\') => true,
        Some(b'.') => lead == 0 && back.next().is_some_and(u8::is_ascii_alphanumeric),
        _ => false,
    };
    let mut on = after.iter();
    let has_member = match on.next() {
        Some(b'/' | b'\\') => true,
        Some(b'.') => on.next().is_some_and(u8::is_ascii_alphanumeric),
        Some(b'=') => lead > 0,
        _ => false,
    };
    is_member || has_member
}

/// How many of these belong to a name, as far as it is looked at.
fn named<'a>(bytes: impl Iterator<Item = &'a u8>) -> usize {
    bytes.take(NAME).take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count()
}

fn part(line: &[u8], range: Range<usize>) -> &[u8] {
    line.get(range).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_from_what_only_sounds_like_one() {
        for line in [
            "Traceback (most recent call last):",
            "[rank3]: Traceback (most recent call last):",
            "100%|████| 10/10\rTraceback (most recent call last):",
            "RuntimeError: CUDA error: device-side assert triggered",
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
            "builtins.KeyError: 'x'",
            "OSError",
            "java.lang.NullPointerException",
            "raise ValueError('x')",
            "2026-01-01 12:00:00 ERROR something broke",
            "2026-01-01 12:00:00,123-ERROR-trainer: broke",
            "[ERROR] x",
            "ERROR:root:x",
            "error: could not compile",
            "main.c:12: error: expected ';'",
            "make: *** [Makefile:3: all] Error 1",
            "Error: 404 Not Found",
            "error: 2 ranks have failed",
            "Unhandled exception in thread 3",
            "Fatal Python error: Segmentation fault",
            "FATAL: kernel too old",
            "thread 'main' panicked at src/main.rs:2:5:",
            "panic: runtime error: index out of range",
            "CRITICAL - out of disk",
            "critical: disk failing",
            "Killed",
            "./run.sh: line 3: 12345 Killed   python train.py",
            "slurmstepd: error: Detected 1 oom-kill event(s)",
            "Out of memory: Killed process 99 (python)",
            "OOM on rank 3",
            "python[99]: segfault at 0 ip 00007f",
            "Segmentation fault (core dumped)",
            "Aborted (core dumped)",
            "ncclUnhandledCudaError: Call to CUDA function failed; CUDA_ERROR_OUT_OF_MEMORY",
            "status CUDA_ERROR_ILLEGAL_ADDRESS",
            "1 validation error for Settings",
            "\x1b[31mERROR\x1b[0m: it broke",
            "\x1b[1;31mE\x1b[0m  RuntimeError: x",
            "{\"level\": \"error\", \"msg\": \"x\"}",
            "time=12 level=error msg=x",
            "{\"error\": \"disk full\"}",
            "loss 0.1 error 0.2 RuntimeError: x",
        ] {
            assert!(error_begins(line.as_bytes(), line.len()).is_some(), "{line}");
        }
        for line in [
            "",
            "step 3 loss 0.3",
            "0 errors",
            "0 error, 3 warnings",
            "finished with no error",
            "2 errors were found before",
            "error=0.03",
            "error: 0.03",
            "error 0.03",
            "Error : 1e-3",
            "error: nan",
            "error: 12",
            "error: 0.1\r",
            "error=3\rstep 4 error=2",
            "error=3, loss=2",
            "val_error: 0.1",
            "val/error: 0.1",
            "train.error 0.3",
            "top-1-error: 0.2",
            "error_rate=0.1",
            "word error rate: 12.3",
            "mean squared error on the test set",
            "MeanSquaredError: 0.1",
            "metrics: [MeanSquaredError()]",
            "\"error\": null",
            "{\"error\": 0, \"x\": 1}",
            "error=None",
            "error: \x1b[32m0.1\x1b[0m",
            "writing to logs/error.log",
            "opened error.log",
            "on error retry",
            "--on-error=retry",
            "non-fatal",
            "fatal=0",
            "log_level=ERROR",
            "--log-level ERRORS",
            "NCCL_ASYNC_ERROR_HANDLING=1",
            "logger.error(message)",
            "terror in the bathroom",
            "a critical section",
            "killed: 0",
            "skilled",
            "oom_score_adj",
            "oom=0",
            "errored",
            "ErrorHandler installed",
            "valError: x",
            "without any error",
            "traceback (most",
        ] {
            assert_eq!(error_begins(line.as_bytes(), line.len()), None, "{line}");
        }
    }

    #[test]
    fn a_long_line_of_such_words_takes_no_long_time() {
        for (word, begins) in [("error", false), ("Error", true), ("ERROR_", true)] {
            // Were each word looked at up to the end of its name, this would not end while anybody waits.
            let line = word.repeat(100_000);
            assert_eq!(error_begins(line.as_bytes(), line.len()).is_some(), begins, "{word}");
        }
    }

    #[test]
    fn only_what_begins_in_time_counts() {
        let line = b"ok ok RuntimeError: x";
        assert_eq!(error_begins(line, 8), None);
        assert_eq!(error_begins(line, 14), Some(13));
    }
}
