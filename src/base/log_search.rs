//! Searching in a log of any size: what is there is read once, in order, some of it at a time, so that who asks can show how
//! far it is. Nothing is kept but the line that is being looked at. A line ends at a line feed, a hole, or the end; a very
//! long one is looked at in pieces, each as a line of its own.

use std::{fs::File, io, sync::LazyLock, time::Instant};

use memchr::{memchr, memrchr};
use regex::bytes::{Regex, RegexBuilder};

use super::{
    Invalid, limits,
    log_errors::{CANDIDATE, error_begins},
    number::size,
    sparse::read_data,
};

/// A longer line is looked at in pieces of so many bytes.
const PIECE: usize = 64 * 1024;
/// So far behind its piece a match may end: the longest text there is.
const OVERLAP: usize = 4 * limits::SEARCH_CHARS;
/// Bytes of a line that are shown, and of them before the match.
const SHOWN: usize = 500;
const SHOWN_BEFORE: usize = 150;
/// Most memory that the longest text takes.
const REGEX_BYTES: usize = 64 << 20;

/// What is looked for.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// A text, whatever the case of its ASCII letters and the colours within.
    Text(Text),
    /// Lines where an error begins.
    Errors,
}

/// A text to look for.
#[derive(Clone, Debug)]
pub struct Text(Regex);

/// What a terminal shows nothing of, none across lines: the same as the dashboard takes out (`static/js/model/text.js`).
const ESCAPES: &str = r"(?:\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[PX^_][^\x1b\n]*\x1b\\|[ -/]*[0-OQ-WYZ\\`-~]))*";

impl Pattern {
    /// A text, whatever the case of its ASCII letters and the colours within; compiling a long one takes a while.
    ///
    /// # Errors
    /// When it is empty, too long, or holds a line break.
    pub fn text(text: &str) -> Result<Self, Invalid> {
        if text.chars().count() > limits::SEARCH_CHARS {
            return Err(Invalid::over("q", limits::SEARCH_CHARS, "characters"));
        }
        if text.is_empty() || text.contains('\n') {
            return Err(Invalid::rule("q", "a text to look for has a character, and is within a line"));
        }
        // What a terminal does not show may stand between any two characters; that costs next to no speed.
        let byte = |byte: &u8| format!("\\x{byte:02x}");
        let characters: Vec<String> =
            text.split_inclusive(|_| true).map(|c| c.as_bytes().iter().map(byte).collect()).collect();
        let mut builder = RegexBuilder::new(&characters.join(ESCAPES));
        let regex = builder.unicode(false).case_insensitive(true).size_limit(REGEX_BYTES).build();
        Ok(Self::Text(Text(regex.map_err(|e| Invalid::rule("q", e.to_string()))?)))
    }

    /// Where a match may begin that begins at `from` or later.
    fn candidate(&self, bytes: &[u8], from: usize) -> Option<usize> {
        let regex = match self {
            Self::Text(Text(regex)) => regex,
            Self::Errors => LazyLock::force(&CANDIDATE),
        };
        regex.find_at(bytes, from).map(|found| found.start())
    }

    /// Where the match begins in a line that has a candidate at `at`, if it begins in the first `within` bytes.
    fn confirm(&self, line: &[u8], at: usize, within: usize) -> Option<usize> {
        match self {
            Self::Text(_) => Some(at),
            Self::Errors => error_begins(line, within),
        }
    }
}

/// How much work is done at once.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Most matches.
    pub matches: usize,
    /// Most bytes read, about.
    pub bytes: u64,
    /// When it is time to answer.
    pub until: Instant,
}

/// A line that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// Where it begins.
    pub offset: u64,
    /// What it says around the match.
    pub text: String,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The lines, in order, each once.
    pub matches: Vec<Match>,
    /// Where to go on; none if the end was reached.
    pub next: Option<u64>,
    /// How far it was looked.
    pub scanned_to: u64,
    /// Where to go on once the file has grown: at `next`, or at the beginning of a last line that has no end yet, which is
    /// found again if it was found.
    pub resume: u64,
    /// The size of the file.
    pub size: u64,
}

/// Looks for lines that begin at `from` or later; `from` is taken for the beginning of one. Blocks.
///
/// # Errors
/// When the file cannot be read.
pub fn search(file: &File, pattern: &Pattern, from: u64, bounds: Bounds) -> io::Result<Found> {
    let size_before = file.metadata()?.len();
    let mut search = Search::new(pattern, from, bounds.matches);
    let (mut reached, mut read) = (from, 0);
    let mut unfinished = None;
    // However little is allowed, it goes on by a line or a piece.
    while !search.is_full() && (search.at == from || (read < bounds.bytes && Instant::now() < bounds.until)) {
        let (at, bytes) = read_data(file, reached)?;
        if bytes.is_empty() {
            // A hole at the end has ended the last line.
            unfinished = Some(if size_before > search.reached() { size_before } else { search.at });
            search.end();
            break;
        }
        search.feed(at, &bytes);
        reached = at + size(bytes.len());
        read += size(bytes.len());
    }
    let size = file.metadata()?.len();
    let next = Some(search.at).filter(|at| *at < size && (unfinished.is_none() || search.is_full()));
    let scanned_to = next.unwrap_or_else(|| reached.max(size_before).min(size));
    let resume = next.or(unfinished).unwrap_or(search.at).min(size);
    Ok(Found { matches: search.found, next, scanned_to, resume, size })
}

/// Bytes as they come, and what was found in them.
struct Search<'a> {
    pattern: &'a Pattern,
    limit: usize,
    /// Where the first byte stands that is not done with: the first of a line or a piece.
    at: u64,
    /// From there on what has come.
    rest: Vec<u8>,
    found: Vec<Match>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// More of the same line may come.
    Open,
    /// The line ends here.
    Ends,
}

impl<'a> Search<'a> {
    fn new(pattern: &'a Pattern, from: u64, limit: usize) -> Self {
        Self { pattern, limit, at: from, rest: Vec::new(), found: Vec::new() }
    }

    fn is_full(&self) -> bool {
        self.found.len() >= self.limit
    }

    /// The end of what has come.
    fn reached(&self) -> u64 {
        self.at + size(self.rest.len())
    }

    /// The next bytes; what is missing before them is a hole.
    fn feed(&mut self, offset: u64, bytes: &[u8]) {
        if offset != self.reached() {
            self.end();
            if self.is_full() {
                return;
            }
            self.at = offset;
        }
        self.rest.extend_from_slice(bytes);
        self.look(Rest::Open);
    }

    /// Nothing more comes, or a hole.
    fn end(&mut self) {
        self.look(Rest::Ends);
    }

    fn look(&mut self, rest: Rest) {
        // What comes later changes nothing about what begins before this.
        let decided = match rest {
            Rest::Ends => self.rest.len(),
            Rest::Open => {
                let line = memrchr(b'\n', &self.rest).map_or(0, |end| end + 1);
                line + self.rest.len().saturating_sub(line + OVERLAP) / PIECE * PIECE
            }
        };
        let mut done = 0;
        while done < decided && !self.is_full() {
            let candidate = self.pattern.candidate(&self.rest, done).filter(|at| *at < decided);
            let Some(at) = candidate else {
                done = decided;
                break;
            };
            let line = Line::around(&self.rest, done, at);
            done = line.next;
            let text = self.rest.get(line.start..line.end).unwrap_or_default();
            if let Some(at) = self.pattern.confirm(text, at - line.start, line.next - line.start) {
                self.found.push(Match { offset: self.at + size(line.start), text: shown(text, at) });
            }
        }
        self.rest.drain(..done.min(self.rest.len()));
        self.at += size(done);
    }
}

/// A line, or a piece of a long one with what a match may need behind it.
struct Line {
    start: usize,
    end: usize,
    /// Where the next one begins.
    next: usize,
}

impl Line {
    /// The one that `at` is in; one begins at `from`.
    fn around(bytes: &[u8], from: usize, at: usize) -> Self {
        let before = bytes.get(from..at).unwrap_or_default();
        let begin = memrchr(b'\n', before).map_or(from, |end| from + end + 1);
        let start = begin + (at - begin) / PIECE * PIECE;
        let feed = memchr(b'\n', bytes.get(at..).unwrap_or_default()).map(|n| at + n);
        let end = feed.unwrap_or(bytes.len());
        if end - start > PIECE {
            return Self { start, end: end.min(start + PIECE + OVERLAP), next: start + PIECE };
        }
        Self { start, end, next: feed.map_or(end, |feed| feed + 1) }
    }
}

/// What is shown of a line with a match at `at`.
fn shown(line: &[u8], at: usize) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= SHOWN {
        return String::from_utf8_lossy(line).into_owned();
    }
    let start = at.saturating_sub(SHOWN_BEFORE).min(line.len() - SHOWN);
    let shown = line.get(start..start + SHOWN).unwrap_or_default();
    // No character is cut.
    let is_inside = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
    let skipped = if start > 0 { shown.iter().take(3).take_while(is_inside).count() } else { 0 };
    let shown = shown.get(skipped..).unwrap_or_default();
    let tail = shown.iter().rev().take(3).take_while(is_inside).count();
    let cut = match str::from_utf8(shown.get(shown.len().saturating_sub(tail + 1)..).unwrap_or_default()) {
        Err(e) if e.error_len().is_none() => tail + 1,
        _ => 0,
    };
    String::from_utf8_lossy(shown.get(..shown.len() - cut).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::FileExt, time::Duration};

    use proptest::prelude::*;

    use super::*;
    use crate::base::sparse::with_hole;

    fn file(bytes: &[u8]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file
    }

    fn bounds() -> Bounds {
        Bounds { matches: 100, bytes: u64::MAX, until: Instant::now() + Duration::from_secs(60) }
    }

    fn text(text: &str) -> Pattern {
        Pattern::text(text).unwrap()
    }

    /// All matches, asked for as often as it takes.
    fn all(file: &File, pattern: &Pattern, bounds: Bounds) -> Vec<(u64, String)> {
        let (mut matches, mut from) = (Vec::new(), 0);
        loop {
            let found = search(file, pattern, from, bounds).unwrap();
            matches.extend(found.matches.into_iter().map(|m| (m.offset, m.text)));
            match found.next {
                Some(next) => {
                    assert!(next > from && found.scanned_to == next && found.resume == next, "it goes on");
                    from = next;
                }
                None => {
                    assert_eq!(found.scanned_to, found.size);
                    return matches;
                }
            }
        }
    }

    fn plainly(bytes: &[u8], needle: &str) -> Vec<(u64, String)> {
        let (mut at, mut found) = (0, Vec::new());
        for line in bytes.split(|b| *b == b'\n') {
            let text = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned();
            if String::from_utf8_lossy(line).to_ascii_lowercase().contains(needle) {
                found.push((at, text));
            }
            at += size(line.len()) + 1;
        }
        found
    }

    #[test]
    fn lines_are_found_with_their_places_whatever_ends_them() {
        let file = file(b"Loss 1\r\n\nno\nloss 2 loss\nx.*\nend LOSS");
        let found = search(&file, &text("loss"), 0, bounds()).unwrap();
        let line = |offset, text: &str| Match { offset, text: text.into() };
        assert_eq!(found.matches, [line(0, "Loss 1"), line(12, "loss 2 loss"), line(28, "end LOSS")]);
        assert_eq!((found.next, found.scanned_to, found.size), (None, 36, 36));
        assert_eq!(search(&file, &text("x.*"), 0, bounds()).unwrap().matches, [line(24, "x.*")], "literally");
        let part = search(&file, &text("loss"), 0, Bounds { matches: 2, ..bounds() }).unwrap();
        assert_eq!((part.matches.len(), part.next, part.scanned_to), (2, Some(24), 24));
        let rest = search(&file, &text("loss"), 24, bounds()).unwrap();
        assert_eq!(rest.matches, [line(28, "end LOSS")]);
        let last = search(&file, &text("loss"), 0, Bounds { matches: 3, ..bounds() }).unwrap();
        assert_eq!(last.next, None, "nothing is left");
        for from in [36, 1000] {
            let none = search(&file, &text("loss"), from, bounds()).unwrap();
            assert_eq!((none.matches.len(), none.next, none.scanned_to), (0, None, 36));
        }
    }

    #[test]
    fn a_line_without_an_end_is_answered_and_looked_at_again_when_the_log_has_grown() {
        let file = file(b"loss=1\nno\nloss=");
        let line = |offset, text: &str| Match { offset, text: text.into() };
        let found = search(&file, &text("loss="), 0, bounds()).unwrap();
        assert_eq!(found.matches, [line(0, "loss=1"), line(10, "loss=")]);
        assert_eq!((found.next, found.scanned_to, found.resume), (None, 15, 10));
        let full = search(&file, &text("loss="), 0, Bounds { matches: 2, ..bounds() }).unwrap();
        assert_eq!((full.next, full.resume), (None, 10), "as many as there may be");
        assert_eq!(search(&file, &text("=0.5"), 0, bounds()).unwrap().resume, 10, "nothing is found yet");
        file.write_all_at(b"0.5\n", 15).unwrap();
        for needle in ["loss=", "=0.5"] {
            let grown = search(&file, &text(needle), found.resume, bounds()).unwrap();
            assert_eq!(grown.matches, [line(10, "loss=0.5")], "{needle}");
            assert_eq!((grown.next, grown.scanned_to, grown.resume), (None, 19, 19));
        }
        assert_eq!(search(&file, &text("loss="), 19, bounds()).unwrap().resume, 19, "nothing is new");
        assert_eq!(search(&file, &text("loss="), 1000, bounds()).unwrap().resume, 19, "it was cut");
        // Of a long one only the last piece.
        let long = self::file(&[b"\n".as_slice(), &vec![b'x'; 3 * PIECE]].concat());
        let resume = search(&long, &text("y"), 0, bounds()).unwrap().resume;
        assert_eq!((resume - 1) % size(PIECE), 0);
        assert!((size(PIECE) + 1..=2 * size(PIECE) + 1).contains(&resume), "{resume}");
    }

    #[test]
    fn errors_are_found() {
        let log =
            b"step 1 error=0.03\nTraceback (most recent call last):\n  File\nRuntimeError: x\n0 errors\n";
        let offsets = |from| {
            let found = search(&file(log), &Pattern::Errors, from, bounds()).unwrap();
            found.matches.iter().map(|m| m.offset).collect::<Vec<_>>()
        };
        assert_eq!((offsets(0), offsets(20)), (vec![18, 60], vec![60]));
    }

    #[test]
    fn a_match_across_reads_and_pieces_is_found_once() {
        for at in [65_530, 65_536, 2 * 65_536 - 3, 200_000] {
            for (filler, what) in [(b'x', "one long line"), (b'\n', "many short ones")] {
                let mut log = vec![filler; at];
                log.extend_from_slice(b"neEDLe");
                log.extend(std::iter::repeat_n(filler, 100_000));
                let found = all(&file(&log), &text("Needle"), bounds());
                assert_eq!(found.len(), 1, "{what}, {at}");
                let offset = if filler == b'x' { at / PIECE * PIECE } else { at };
                assert_eq!(found[0].0, size(offset), "{what}, {at}");
                assert!(found[0].1.contains("neEDLe") && found[0].1.len() <= SHOWN);
                // As little at a time as can be.
                assert_eq!(all(&file(&log), &text("needle"), Bounds { bytes: 1, ..bounds() }), found);
                assert_eq!(
                    all(&file(&log), &text("needle"), Bounds { until: Instant::now(), ..bounds() }),
                    found
                );
                let log = log.to_ascii_uppercase();
                let log = String::from_utf8(log).unwrap().replace("NEEDLE", " ERROR ");
                assert_eq!(all(&file(log.as_bytes()), &Pattern::Errors, bounds()).len(), 1, "{what}, {at}");
            }
        }
    }

    #[test]
    fn holes_are_passed_over_and_end_a_line() {
        let (stretch, hole) = (64 << 10, 1 << 40);
        let Some(file) = with_hole(stretch, hole) else { return };
        file.write_all_at(b"\nlast before", stretch - 12).unwrap();
        file.write_all_at(b"first after\n", stretch + hole).unwrap();
        let found = search(&file, &text("before"), 0, bounds()).unwrap();
        assert_eq!(found.matches, [Match { offset: stretch - 11, text: "last before".into() }]);
        assert_eq!((found.next, found.scanned_to), (None, 2 * stretch + hole));
        for from in [0, stretch - 11, stretch, stretch + hole / 2] {
            let found = search(&file, &text("first"), from, bounds()).unwrap();
            assert_eq!(found.matches, [Match { offset: stretch + hole, text: "first after".into() }]);
        }
        assert_eq!(search(&file, &text("beforefirst"), 0, bounds()).unwrap().matches, []);
        assert_eq!(search(&file, &text("\0"), 0, bounds()).unwrap().matches, [], "a hole is not zeros");
        file.set_len(2 * (stretch + hole)).unwrap();
        let found = search(&file, &text("none"), 0, bounds()).unwrap();
        assert_eq!((found.next, found.scanned_to), (None, 2 * (stretch + hole)));
        assert_eq!(found.resume, found.size, "a hole has ended the last line");
    }

    #[test]
    fn what_is_shown_of_a_long_line_is_around_the_match_and_of_whole_characters() {
        for shift in 0..4 {
            let line = format!("{}{}needle{}", "-".repeat(shift), "ä€😀".repeat(100), "😀€".repeat(300));
            let found = all(&file(line.as_bytes()), &text("needle"), bounds());
            let (_, shown) = &found[0];
            assert!(shown.contains("needle") && !shown.contains('\u{fffd}'), "{shown}");
            assert!((SHOWN - 7..=SHOWN).contains(&shown.len()), "{}", shown.len());
        }
        let found = all(&file(b"\xff needle \xfe\n"), &text("needle"), bounds());
        assert_eq!(found[0].1, "\u{fffd} needle \u{fffd}");
    }

    #[test]
    fn colours_are_no_part_of_the_text() {
        let lines = [
            "\x1b[32mINFO\x1b[0m: Started",
            "plain info: started",
            "\x1b[38;5;1mIN\x1b[1m\x1b(B\x1b[mFO\x1b]8;;https://a.b\x1b\\: \x1b]8;;\x07Started",
            "INFO\x1b[0 Started",
            "INFO\x1b[0m",
            ": Started",
        ];
        let file = file(lines.join("\n").as_bytes());
        let found: Vec<String> =
            all(&file, &text("INFO: Started"), bounds()).into_iter().map(|m| m.1).collect();
        assert_eq!(found, lines[..3]);
        assert_eq!(all(&file, &text("\x1b[32m"), bounds()).len(), 1, "nor are they left out of it");
        let long = "x".repeat(limits::SEARCH_CHARS);
        assert_eq!(all(&self::file(format!("\x1b[1m{long}").as_bytes()), &text(&long), bounds()).len(), 1);
    }

    #[test]
    fn what_cannot_be_in_a_line_is_refused() {
        for bad in ["", "a\nb", &"x".repeat(limits::SEARCH_CHARS + 1)] {
            assert_eq!(Pattern::text(bad).unwrap_err().field, "q");
        }
        let most = "😀".repeat(limits::SEARCH_CHARS);
        assert_eq!(all(&file(most.as_bytes()), &text(&most), bounds()).len(), 1);
    }

    proptest! {
        #[test]
        fn it_finds_what_a_plain_look_at_each_line_finds(
            lines in prop::collection::vec("[aAbBn€]{0,6}", 0..30),
            ends in prop::collection::vec(prop::sample::select(vec!["\n", "\r\n", "\n\n"]), 30),
            needle in "[ab€]{1,3}",
            cuts in prop::collection::vec(1..20usize, 1..40),
            limit in 1..5usize,
        ) {
            let log: String = lines.iter().zip(&ends).map(|(line, end)| format!("{line}{end}")).collect();
            let log = log.trim_end_matches('\n').as_bytes();
            let expected = plainly(log, &needle);
            prop_assert_eq!(all(&file(log), &text(&needle), Bounds { matches: limit, ..bounds() }), expected.clone());
            // As it comes in any parts.
            let pattern = text(&needle);
            let mut search = Search::new(&pattern, 0, usize::MAX);
            let (mut at, mut cuts) = (0, cuts.iter().cycle());
            while at < log.len() {
                let end = log.len().min(at + cuts.next().unwrap());
                search.feed(size(at), &log[at..end]);
                at = end;
            }
            search.end();
            prop_assert_eq!(search.found.into_iter().map(|m| (m.offset, m.text)).collect::<Vec<_>>(), expected);
        }
    }
}
