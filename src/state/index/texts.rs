//! What a search looks through: the texts of all runs in one contiguous arena, so that a search is one pass over memory
//! and not one look a run.

use super::Slot;

/// Bytes of runs that have changed or are gone before the arena is made anew.
const WASTE: usize = 1 << 20;

/// The texts of all runs. A run's text ends with a line break and is in lower case.
#[derive(Debug, Default)]
pub(super) struct Texts {
    arena: Vec<u8>,
    /// Where the text of each run begins, ascending; `None` where it was replaced.
    pieces: Vec<(usize, Option<Slot>)>,
    wasted: usize,
}

/// The place of a run's text.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Piece(usize);

impl Texts {
    pub(super) fn add(&mut self, text: &str, slot: Slot) -> Piece {
        self.pieces.push((self.arena.len(), Some(slot)));
        self.arena.extend_from_slice(text.as_bytes());
        Piece(self.pieces.len() - 1)
    }

    pub(super) fn is(&self, piece: Piece, text: &str) -> bool {
        self.bytes(piece) == text.as_bytes()
    }

    /// Takes a text out: nothing is found in it any more.
    pub(super) fn remove(&mut self, piece: Piece) {
        let (from, to) = self.range(piece.0);
        // A line break is in no needle.
        if let Some(bytes) = self.arena.get_mut(from..to) {
            bytes.fill(b'\n');
        }
        if let Some((_, slot)) = self.pieces.get_mut(piece.0) {
            *slot = None;
        }
        self.wasted += to - from;
    }

    /// Makes the arena anew if much of it is waste; calls `moved` with the new place of each text.
    pub(super) fn tidy(&mut self, mut moved: impl FnMut(Slot, Piece)) {
        if self.wasted < WASTE.max(self.arena.len() / 2) {
            return;
        }
        let old = std::mem::take(self);
        for (at, (_, slot)) in old.pieces.iter().enumerate() {
            let Some(slot) = *slot else { continue };
            let piece = Piece(self.pieces.len());
            self.pieces.push((self.arena.len(), Some(slot)));
            self.arena.extend_from_slice(old.bytes(Piece(at)));
            moved(slot, piece);
        }
    }

    /// The runs whose text holds `needle`, each once, in no order of use.
    pub(super) fn find(&self, needle: &str) -> Vec<Slot> {
        let mut found = Vec::new();
        if needle.contains('\n') {
            return found;
        }
        let finder = memchr::memmem::Finder::new(needle.as_bytes());
        let (mut at, mut first_piece) = (0, 0);
        while let Some(hit) = self.arena.get(at..).and_then(|rest| finder.find(rest)) {
            let hit = at + hit;
            let rest = self.pieces.get(first_piece..).unwrap_or_default();
            first_piece += rest.partition_point(|(start, _)| *start <= hit);
            found.extend(self.pieces.get(first_piece - 1).and_then(|(_, slot)| *slot));
            // One hit a run is enough.
            at = self.pieces.get(first_piece).map_or(self.arena.len(), |(start, _)| *start);
        }
        found
    }

    fn bytes(&self, piece: Piece) -> &[u8] {
        let (from, to) = self.range(piece.0);
        self.arena.get(from..to).unwrap_or_default()
    }

    fn range(&self, piece: usize) -> (usize, usize) {
        let start = |i: usize| self.pieces.get(i).map_or(self.arena.len(), |(start, _)| *start);
        (start(piece), start(piece + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_is_found_once_and_a_removed_one_never() {
        let mut texts = Texts::default();
        let words = ["aa aa\nx\n", "b\n", "aa\n", "caa\n"];
        let pieces: Vec<Piece> = words.iter().enumerate().map(|(i, w)| texts.add(w, i)).collect();
        assert_eq!(texts.find("aa"), [0, 2, 3]);
        assert_eq!(texts.find("a\n"), [0usize; 0]);
        texts.remove(pieces[2]);
        assert_eq!(texts.find("aa"), [0, 3]);
        assert_eq!(texts.find("b"), [1]);
        assert!(texts.is(pieces[3], "caa\n"));
    }

    #[test]
    fn what_was_replaced_is_cleared_away_in_the_end() {
        let mut texts = Texts::default();
        let long = format!("{}\n", "x".repeat(1000));
        let mut piece = texts.add(&long, 7);
        for _ in 0..5000 {
            texts.remove(piece);
            piece = texts.add(&long, 7);
            texts.tidy(|slot, moved| {
                assert_eq!(slot, 7);
                piece = moved;
            });
        }
        assert!(texts.arena.len() < 3 * WASTE);
        assert_eq!(texts.find("xx"), [7]);
    }
}
