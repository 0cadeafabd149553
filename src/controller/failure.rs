//! What a failed rank left behind: the end of its log, found from the end of the file, and the error file that
//! torchrun's convention has workers write.

use std::{
    borrow::Cow,
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

use serde_json::Value;

use crate::base::{masking::mask_text, tail::last_lines_offset};

const LINES: usize = 50;
/// No more of a log is shown, whatever its lines are like.
const BYTES: u64 = 16 * 1024;
/// Most characters of one line.
const LINE_CHARS: usize = 2000;
const ERROR_FILE_BYTES: u64 = 1024 * 1024;

/// What a failed rank left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Evidence {
    pub(super) log_tail: Vec<String>,
    /// What the rank itself said was wrong.
    pub(super) message: Option<String>,
}

/// Whether a rank's last lines say that somebody holds this port.
pub(super) fn names_taken_port(log_tail: &[String], port: u16) -> bool {
    let port = port.to_string();
    let names_it = |line: &String| line.split(|c: char| !c.is_ascii_digit()).any(|number| number == port);
    let taken = |line: &String| {
        let line = line.to_ascii_lowercase();
        line.contains("eaddrinuse") || line.contains("address already in use")
    };
    log_tail.iter().any(taken) && log_tail.iter().any(names_it)
}

/// Reads what a rank left; what cannot be read is left out. A rank that left no log has perhaps written where it was.
pub(super) fn evidence(log: &Path, error_file: &Path) -> Evidence {
    let error = error_file_of(error_file);
    let tail = log_tail(log).unwrap_or_default();
    if !tail.is_empty() {
        return Evidence { log_tail: tail, message: error.message };
    }
    let stack: Vec<String> = error.stack.unwrap_or_default().lines().map(plain).collect();
    let from = stack.len().saturating_sub(LINES);
    Evidence { log_tail: stack.get(from..).unwrap_or_default().to_vec(), message: error.message }
}

pub(super) fn log_tail(path: &Path) -> std::io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let start = last_lines_offset(&file, LINES)?.max(size.saturating_sub(BYTES));
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).lines().map(plain).collect())
}

/// A line as it would look on a terminal at last: what follows the last carriage return, without escape sequences, cut
/// where it is too long to read. It goes into the record, so secrets are masked; the log itself is the run's own.
fn plain(line: &str) -> String {
    let last = line.rsplit('\r').next().unwrap_or(line);
    let shown = console::strip_ansi_codes(last);
    let mut chars = shown.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c });
    let mut plain: String = chars.by_ref().take(LINE_CHARS).collect();
    if chars.next().is_some() {
        plain.push_str(" …");
    }
    match mask_text(&plain) {
        Cow::Borrowed(_) => plain,
        Cow::Owned(masked) => masked,
    }
}

/// What a `TORCHELASTIC_ERROR_FILE` says.
#[derive(Default)]
struct ErrorFile {
    message: Option<String>,
    stack: Option<String>,
}

/// `{"message": {"message": …, "extraInfo": {"py_callstack": …, "timestamp": …}}}`, or a plain string as the message.
/// Anything else in it, of whatever type, is nobody's mistake.
fn error_file_of(path: &Path) -> ErrorFile {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(ERROR_FILE_BYTES).read_to_end(&mut bytes));
    let json: Value = match read {
        Ok(_) => serde_json::from_str(&String::from_utf8_lossy(&bytes)).unwrap_or_default(),
        Err(_) => return ErrorFile::default(),
    };
    let text = |pointer| json.pointer(pointer).and_then(Value::as_str);
    ErrorFile {
        message: text("/message/message").or_else(|| text("/message")).map(plain),
        stack: text("/message/extraInfo/py_callstack").map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_log_and_the_rank_s_own_word_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let (log, error) = (dir.path().join("log"), dir.path().join("error.json"));
        let lines: String = (0..100).map(|i| format!("line {i}\n")).collect();
        std::fs::write(
            &log,
            format!("{lines}  0%\r 50%\r100%\n\x1b[31mValueError: b\u{0}oom\x1b[0m\n").as_bytes(),
        )
        .unwrap();
        std::fs::write(&error, r#"{"message": {"message": "ValueError: boom", "extraInfo": {}}}"#).unwrap();
        let found = evidence(&log, &error);
        assert_eq!(found.log_tail.len(), LINES);
        assert_eq!(found.log_tail.get(LINES - 2..).unwrap(), ["100%", "ValueError: b\u{fffd}oom"]);
        assert_eq!(found.message.as_deref(), Some("ValueError: boom"));
        for form in [
            r#"{"message": "ValueError: boom"}"#,
            r#"{"message": {"message": "ValueError: boom", "extraInfo": {"timestamp": "17"}, "errorCode": 1}}"#,
            r#"{"message": {"message": "ValueError: boom", "extraInfo": {"timestamp": 17, "py_callstack": "a\nb"}}}"#,
        ] {
            std::fs::write(&error, form).unwrap();
            assert_eq!(evidence(&log, &error).message.as_deref(), Some("ValueError: boom"), "{form}");
        }
        assert_eq!(evidence(&dir.path().join("none"), &error).log_tail, ["a", "b"]);
        std::fs::write(&error, "{").unwrap();
        assert_eq!(evidence(&log, &error).message, None);
        assert_eq!(evidence(&dir.path().join("none"), &dir.path().join("none")), Evidence::default());
    }

    #[test]
    fn a_port_that_is_taken_is_recognised_by_its_number() {
        let torch = "The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, \
                     code: -98, name: EADDRINUSE, message: address already in use";
        assert!(names_taken_port(&[torch.to_owned()], 29_500));
        assert!(!names_taken_port(&[torch.to_owned()], 2950));
        assert!(!names_taken_port(&["port 29500 answers".to_owned()], 29_500));
    }

    #[test]
    fn secrets_do_not_go_into_the_record() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        std::fs::write(&log, "OSError: postgres://user:hunter22@db/x refused\n").unwrap();
        let found = evidence(&log, &dir.path().join("none")).log_tail;
        assert!(!found.concat().contains("hunter22"), "{found:?}");
        assert!(found.concat().starts_with("OSError: "), "{found:?}");
    }

    #[test]
    fn a_log_without_lines_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        std::fs::write(&log, vec![b'x'; 4 << 20]).unwrap();
        let found = evidence(&log, &dir.path().join("none")).log_tail;
        assert_eq!(found, [format!("{} …", "x".repeat(LINE_CHARS))]);
    }
}
