//! Metrics to be reported: values like those of trainings, and requests that carry them and are cheap to make, since
//! their maker shares the cores with what is measured.

use std::{io::Write, net::SocketAddr, sync::Arc};

use crate::seed::now_ms;

/// Between two steps, and how much that varies.
const APART_MS: u64 = 50;
const JITTER_MS: u64 = 4;
/// Reports begin so long before now: steps are reported faster than their times pass.
const AGE_MS: u64 = 300 * 24 * 3600 * 1000;

/// What values look like.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// Of 24 random bits, as a float32 of a training is.
    Float32,
    /// Of 53 random bits.
    Float64,
    /// Random, rounded to four decimals.
    Decimals,
    /// A curve that falls and swings, in float32.
    Smooth,
}

impl Kind {
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::Float32, "noise, float32"),
        (Self::Float64, "noise, float64"),
        (Self::Decimals, "noise, 4 decimals"),
        (Self::Smooth, "smooth, float32"),
    ];

    /// Value `i` of `count`.
    fn value(self, rng: &mut fastrand::Rng, i: u32, count: u32) -> f64 {
        match self {
            Self::Float32 => f64::from(0.25 + rng.f32() / 2.0),
            Self::Float64 => rng.f64(),
            Self::Decimals => f64::from(rng.u32(0..10_000)) / 10_000.0,
            Self::Smooth => {
                let at = f64::from(i) / f64::from(count);
                let smooth = 2.0 * (-3.0 * at).exp() + 0.1 * (40.0 * at).sin() + 0.2;
                #[expect(
                    clippy::as_conversions,
                    reason = "the nearest float32 is what a training would report"
                )]
                let single = smooth as f32;
                f64::from(single)
            }
        }
    }
}

/// Values, encoded ahead.
pub(crate) struct Values {
    /// As JSON, each with a comma behind it.
    json: Vec<u8>,
    /// Where each begins there, and the last one ends.
    places: Vec<usize>,
    /// As MessagePack, nine bytes each.
    packed: Vec<u8>,
}

impl Values {
    pub(crate) fn new(kind: Kind, count: u32) -> anyhow::Result<Arc<Self>> {
        let mut rng = fastrand::Rng::with_seed(17);
        let (mut json, mut places, mut packed) = (Vec::new(), vec![0], Vec::new());
        for i in 0..count {
            let value = kind.value(&mut rng, i, count);
            write!(json, "{value},")?;
            places.push(json.len());
            rmp::encode::write_f64(&mut packed, value)?;
        }
        Ok(Arc::new(Self { json, places, packed }))
    }

    fn len(&self) -> usize {
        self.places.len() - 1
    }

    fn json(&self, from: usize, count: usize) -> &[u8] {
        &self.json[self.places[from]..self.places[from + count] - 1]
    }

    fn packed(&self, from: usize, count: usize) -> &[u8] {
        &self.packed[from * 9..(from + count) * 9]
    }
}

/// How reports are encoded.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    /// One by one, in JSON.
    Reports,
    /// As columns, in JSON.
    Columns,
    /// As columns, in MessagePack.
    Packed,
}

/// What one request carries.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) form: Form,
    pub(crate) keys: usize,
    pub(crate) steps: usize,
}

impl Shape {
    /// Points of a request.
    pub(crate) fn points(self) -> usize {
        self.keys * self.steps
    }
}

/// The name of a key.
pub(crate) fn key(i: usize) -> String {
    if i == 0 { "train/loss".to_owned() } else { format!("layer_{i:05}/grad_norm") }
}

/// One run's reports, each with the next steps.
pub(crate) struct Reports {
    /// Of the request, up to the length of its body.
    head: String,
    shape: Shape,
    keys: Vec<String>,
    values: Arc<Values>,
    rng: fastrand::Rng,
    /// Of the next request.
    seq: u64,
    step: u64,
    begun_ms: u64,
    body: Vec<u8>,
    request: Vec<u8>,
}

impl Reports {
    /// `path` is the run's; `chance` tells the values of one run from those of others.
    pub(crate) fn new(
        address: SocketAddr,
        path: &str,
        token: &str,
        shape: Shape,
        values: &Arc<Values>,
        chance: u64,
    ) -> anyhow::Result<Self> {
        let kind = if matches!(shape.form, Form::Packed) { "msgpack" } else { "json" };
        Ok(Self {
            head: format!(
                "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
                 content-type: application/{kind}\r\ncontent-length: "
            ),
            shape,
            keys: (0..shape.keys).map(key).collect(),
            values: Arc::clone(values),
            rng: fastrand::Rng::with_seed(chance),
            seq: 1,
            step: 0,
            begun_ms: now_ms()? - AGE_MS,
            body: Vec::new(),
            request: Vec::new(),
        })
    }

    /// Begins where others of the same run and writer have come to.
    pub(crate) fn continue_after(&mut self, others: &Self) {
        (self.seq, self.step) = (others.seq, others.step);
    }

    /// Requests that were made.
    pub(crate) fn made(&self) -> u64 {
        self.seq - 1
    }

    /// The next request.
    pub(crate) fn next(&mut self) -> anyhow::Result<&[u8]> {
        self.body.clear();
        match self.shape.form {
            Form::Reports => self.one_by_one()?,
            Form::Columns => self.columns()?,
            Form::Packed => self.packed()?,
        }
        self.request.clear();
        write!(self.request, "{}{}\r\n\r\n", self.head, self.body.len())?;
        self.request.extend_from_slice(&self.body);
        self.seq += 1;
        self.step += u64::try_from(self.shape.steps)?;
        Ok(&self.request)
    }

    /// Where values are taken from: of all that there are if they are as many as steps, else from anywhere.
    fn place(&mut self, key: usize) -> anyhow::Result<usize> {
        let (all, wanted) = (self.values.len(), self.shape.steps);
        let next = key * (all / self.keys.len()) + usize::try_from(self.step)?;
        Ok(if next + wanted <= (key + 1) * (all / self.keys.len()) {
            next
        } else {
            self.rng.usize(0..=all - wanted)
        })
    }

    fn steps(&self) -> std::ops::Range<u64> {
        self.step..self.step + u64::try_from(self.shape.steps).unwrap_or(0)
    }

    fn time_ms(&mut self, step: u64) -> u64 {
        self.begun_ms + step * APART_MS + self.rng.u64(0..JITTER_MS)
    }

    fn one_by_one(&mut self) -> anyhow::Result<()> {
        write!(self.body, "{{\"writer\":\"bench\",\"seq\":{},\"reports\":[", self.seq)?;
        for step in self.steps() {
            let time_ms = self.time_ms(step);
            write!(self.body, "{{\"step\":{step},\"time_ms\":{time_ms},\"metrics\":{{")?;
            for key in &self.keys {
                let from = self.rng.usize(0..self.values.len());
                write!(self.body, "\"{key}\":")?;
                self.body.extend_from_slice(self.values.json(from, 1));
                self.body.push(b',');
            }
            self.body.pop();
            self.body.extend_from_slice(b"}},");
        }
        self.body.pop();
        self.body.extend_from_slice(b"]}");
        Ok(())
    }

    fn columns(&mut self) -> anyhow::Result<()> {
        write!(self.body, "{{\"writer\":\"bench\",\"seq\":{},\"columns\":{{\"step\":[", self.seq)?;
        for step in self.steps() {
            write!(self.body, "{step},")?;
        }
        self.body.pop();
        self.body.extend_from_slice(b"],\"time_ms\":[");
        for step in self.steps() {
            let time_ms = self.time_ms(step);
            write!(self.body, "{time_ms},")?;
        }
        self.body.pop();
        self.body.extend_from_slice(b"],\"metrics\":{");
        for i in 0..self.keys.len() {
            let from = self.place(i)?;
            write!(self.body, "\"{}\":[", self.keys[i])?;
            self.body.extend_from_slice(self.values.json(from, self.shape.steps));
            self.body.extend_from_slice(b"],");
        }
        self.body.pop();
        self.body.extend_from_slice(b"}}}");
        Ok(())
    }

    fn packed(&mut self) -> anyhow::Result<()> {
        use rmp::encode::{write_array_len, write_map_len, write_str, write_u64};
        let steps = u32::try_from(self.shape.steps)?;
        write_map_len(&mut self.body, 3)?;
        write_str(&mut self.body, "writer")?;
        write_str(&mut self.body, "bench")?;
        write_str(&mut self.body, "seq")?;
        write_u64(&mut self.body, self.seq)?;
        write_str(&mut self.body, "columns")?;
        write_map_len(&mut self.body, 3)?;
        write_str(&mut self.body, "step")?;
        write_array_len(&mut self.body, steps)?;
        for step in self.steps() {
            write_u64(&mut self.body, step)?;
        }
        write_str(&mut self.body, "time_ms")?;
        write_array_len(&mut self.body, steps)?;
        for step in self.steps() {
            let time_ms = self.time_ms(step);
            write_u64(&mut self.body, time_ms)?;
        }
        write_str(&mut self.body, "metrics")?;
        write_map_len(&mut self.body, u32::try_from(self.keys.len())?)?;
        for i in 0..self.keys.len() {
            let from = self.place(i)?;
            write_str(&mut self.body, &self.keys[i])?;
            write_array_len(&mut self.body, steps)?;
            self.body.extend_from_slice(self.values.packed(from, self.shape.steps));
        }
        Ok(())
    }
}
