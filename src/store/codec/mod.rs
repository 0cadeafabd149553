//! The binary forms in which metrics are kept. All integers are varints (LEB128; signed ones zigzag), floats are little
//! endian; a first byte says which form it is, so that a later version can have another.

pub(crate) mod chunk;
pub(crate) mod rollup;
pub(crate) mod summaries;
pub(crate) mod tail;

use super::StoreError;

/// Writes a binary form.
#[derive(Debug, Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn of(form: u8) -> Self {
        Self(vec![form])
    }

    fn unsigned(&mut self, mut n: u64) {
        loop {
            let [low, ..] = n.to_le_bytes();
            n >>= 7;
            if n == 0 {
                return self.0.push(low & 0x7f);
            }
            self.0.push(low | 0x80);
        }
    }

    fn len(&mut self, len: usize) {
        self.unsigned(crate::base::number::size(len));
    }

    fn signed(&mut self, n: i64) {
        self.unsigned((n.cast_unsigned() << 1) ^ (n >> 63).cast_unsigned());
    }

    /// Each as the difference to the one before.
    fn ascent(&mut self, numbers: impl IntoIterator<Item = i64>) {
        let mut before = 0_i64;
        for n in numbers {
            self.signed(n.wrapping_sub(before));
            before = n;
        }
    }

    fn float(&mut self, x: f64) {
        self.0.extend_from_slice(&x.to_le_bytes());
    }

    /// Floats in half the room if none of them loses a bit by it.
    fn floats<'a>(&mut self, all: impl Iterator<Item = &'a f64> + Clone) {
        let short = all.clone().all(|x| narrow(*x).is_some());
        self.0.push(if short { SHORT } else { LONG });
        if short {
            all.filter_map(|x| narrow(*x)).for_each(|x| self.0.extend_from_slice(&x.to_le_bytes()));
        } else {
            all.for_each(|x| self.float(*x));
        }
    }
}

const LONG: u8 = 0;
const SHORT: u8 = 1;

/// The same float with 32 bits, if nothing is lost: neither digits nor a NaN's payload.
fn narrow(x: f64) -> Option<f32> {
    #[expect(clippy::as_conversions, reason = "what it loses is looked for on the next line")]
    let short = x as f32;
    (f64::from(short).to_bits() == x.to_bits()).then_some(short)
}

/// Reads a binary form.
#[derive(Debug)]
struct Scan<'a> {
    rest: &'a [u8],
    table: &'static str,
}

impl<'a> Scan<'a> {
    /// # Errors
    /// When the form is another one.
    fn of(table: &'static str, form: u8, bytes: &'a [u8]) -> Result<Self, StoreError> {
        match bytes.split_first() {
            Some((first, rest)) if *first == form => Ok(Self { rest, table }),
            first => Err(corrupt(table, format!("a form {:?} where {form} is known", first.map(|(f, _)| f)))),
        }
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], StoreError> {
        let (taken, rest) = self.rest.split_at_checked(n).ok_or_else(|| self.ended())?;
        self.rest = rest;
        Ok(taken)
    }

    fn ended(&self) -> StoreError {
        corrupt(self.table, "it ends too early".to_owned())
    }

    fn byte(&mut self) -> Result<u8, StoreError> {
        let (&byte, rest) = self.rest.split_first().ok_or_else(|| self.ended())?;
        self.rest = rest;
        Ok(byte)
    }

    fn unsigned(&mut self) -> Result<u64, StoreError> {
        let mut n = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            n |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(n);
            }
        }
        Err(corrupt(self.table, "a number that is too long".to_owned()))
    }

    /// A number of things that follow, each of at least one byte.
    fn len(&mut self) -> Result<usize, StoreError> {
        let n = usize::try_from(self.unsigned()?).unwrap_or(usize::MAX);
        if n > self.rest.len() { Err(self.ended()) } else { Ok(n) }
    }

    fn signed(&mut self) -> Result<i64, StoreError> {
        let n = self.unsigned()?;
        Ok((n >> 1).cast_signed() ^ -(n & 1).cast_signed())
    }

    fn ascent(&mut self, n: usize) -> Result<Vec<i64>, StoreError> {
        let mut out = Vec::with_capacity(n);
        let mut at = 0_i64;
        for _ in 0..n {
            at = at.wrapping_add(self.signed()?);
            out.push(at);
        }
        Ok(out)
    }

    fn float(&mut self) -> Result<f64, StoreError> {
        let bytes = self.take(8)?;
        bytes.try_into().map(f64::from_le_bytes).map_err(|_| self.ended())
    }

    fn floats(&mut self, n: usize) -> Result<Vec<f64>, StoreError> {
        if self.byte()? == SHORT {
            let bytes = self.take(n.saturating_mul(4))?;
            let one = |b: &[u8]| f64::from(f32::from_le_bytes(b.try_into().unwrap_or_default()));
            return Ok(bytes.chunks_exact(4).map(one).collect());
        }
        let bytes = self.take(n.saturating_mul(8))?;
        let one = |b: &[u8]| f64::from_le_bytes(b.try_into().unwrap_or_default());
        Ok(bytes.chunks_exact(8).map(one).collect())
    }
}

fn corrupt(table: &'static str, what: String) -> StoreError {
    StoreError::Corrupt { table, what }
}
