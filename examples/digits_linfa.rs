//! A model of linfa, a Rust crate for machine learning, trained by a closure in an embedded controller: handwritten
//! digits by ten logistic regressions (FTRL-proximal), one a digit, recorded in a data directory that
//! `trainhead serve --data-dir DIR` shows.
//!
//! `cargo run --example digits_linfa -- /tmp/digits`, or with one more argument, the epoch in which the first attempt
//! fails: the second goes on from the checkpoint of the epoch before.

use std::{
    error::Error,
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use flate2::read::GzDecoder;
use linfa::{
    Dataset,
    dataset::Pr,
    prelude::{FitWith, Predict},
};
use linfa_ftrl::Ftrl;
use ndarray::{Array1, Array2, Axis};
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use trainhead::{
    base::{RunId, SystemClock},
    controller::{
        ClosureGroup, ControllerOptions, FailurePolicy, TrainController, UploadMode, WorkerSession,
    },
    state::{DataDir, StateOptions, start},
};

type Failure = Box<dyn Error + Send + Sync>;

const EPOCHS: u64 = 20;
const BATCH: usize = 16;
const CLASSES: u8 = 10;
/// Pixels, and a constant one for the offset.
const FEATURES: usize = 64 + 1;

/// Images, a row each, and their digits.
struct Samples {
    images: Array2<f64>,
    digits: Array1<u8>,
}

impl Samples {
    fn new(rows: &[(Vec<f64>, u8)]) -> Result<Self, Failure> {
        let pixels = rows.iter().flat_map(|(image, _)| image.iter().copied()).collect();
        let digits = rows.iter().map(|(_, digit)| *digit).collect();
        Ok(Self { images: Array2::from_shape_vec((rows.len(), FEATURES), pixels)?, digits })
    }
}

/// The samples to train on, and every fifth one to test with.
fn load() -> Result<(Samples, Samples), Failure> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/digits.csv.gz");
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for (number, line) in BufReader::new(GzDecoder::new(File::open(path)?)).lines().enumerate() {
        let line = line?;
        let (pixels, digit) = line.rsplit_once(',').ok_or("a line without a digit")?;
        let mut image =
            pixels.split(',').map(|p| Ok(p.parse::<f64>()? / 16.0)).collect::<Result<Vec<_>, Failure>>()?;
        image.push(1.0);
        let part = if number % 5 == 0 { &mut test } else { &mut train };
        part.push((image, digit.parse()?));
    }
    Ok((Samples::new(&train)?, Samples::new(&test)?))
}

/// What a checkpoint holds: linfa's models are serde's, so that they are a file as they are.
#[derive(Default, Serialize, Deserialize)]
struct Model {
    epochs: u64,
    digits: Vec<Ftrl<f64>>,
}

impl Model {
    fn load(directory: &Path) -> Result<Self, Failure> {
        Ok(serde_json::from_reader(BufReader::new(File::open(directory.join("model.json"))?))?)
    }

    fn save(&self, directory: &Path) -> Result<(), Failure> {
        Ok(serde_json::to_writer(File::create_new(directory.join("model.json"))?, self)?)
    }

    /// One pass over the samples, batch by batch, for each digit against all others.
    fn train(&mut self, samples: &Samples) -> Result<(), Failure> {
        let mut known = std::mem::take(&mut self.digits).into_iter();
        let params = Ftrl::params().alpha(0.1).beta(1.0).l1_ratio(0.0).l2_ratio(0.1);
        for digit in 0..CLASSES {
            let mut model = known.next();
            let batches = samples.images.axis_chunks_iter(Axis(0), BATCH);
            for (images, digits) in batches.zip(samples.digits.axis_chunks_iter(Axis(0), BATCH)) {
                let batch = Dataset::new(images.to_owned(), digits.mapv(|known| known == digit));
                model = Some(params.fit_with(model, &batch)?);
            }
            self.digits.extend(model);
        }
        self.epochs += 1;
        Ok(())
    }

    /// Mean log loss over all digits, and how often the likeliest digit is the right one.
    fn test(&self, samples: &Samples) -> Result<(f64, f64), Failure> {
        let said: Vec<Array1<Pr>> = self.digits.iter().map(|m| m.predict(&samples.images)).collect();
        let (mut loss, mut right) = (0.0, 0_u32);
        for (row, truth) in samples.digits.iter().enumerate() {
            let mut best = (0_u8, f32::MIN);
            for (digit, said) in (0..CLASSES).zip(&said) {
                let p = said.get(row).map_or(0.0, |p| **p);
                loss -= f64::from(if digit == *truth { p } else { 1.0 - p }).max(1e-9).ln();
                best = if p > best.1 { (digit, p) } else { best };
            }
            right += u32::from(best.0 == *truth);
        }
        let count = f64::from(u32::try_from(samples.digits.len())?);
        Ok((loss / count / f64::from(CLASSES), f64::from(right) / count))
    }
}

fn train(session: &WorkerSession, fails_at: Option<u64>) -> Result<(), Failure> {
    let context = session.context();
    let (samples, unseen) = load()?;
    let mut model = match session.checkpoint()? {
        Some(checkpoint) => Model::load(&checkpoint.path.ok_or("the checkpoint is nowhere")?)?,
        None => Model::default(),
    };
    println!("attempt {} begins with epoch {}", context.attempt, model.epochs + 1);
    while model.epochs < EPOCHS {
        if context.attempt == 0 && fails_at == Some(model.epochs + 1) {
            return Err("the failure that was asked for".into());
        }
        model.train(&samples)?;
        let (train_loss, train_accuracy) = model.test(&samples)?;
        let (test_loss, test_accuracy) = model.test(&unseen)?;
        println!(
            "epoch {:2}/{EPOCHS}  loss {train_loss:.4}  test {:.1}%",
            model.epochs,
            100.0 * test_accuracy
        );
        let directory = tempfile::tempdir()?;
        model.save(directory.path())?;
        let answer = session.report_checkpoint(
            Some(model.epochs),
            [
                ("train/loss", train_loss),
                ("train/accuracy", train_accuracy),
                ("test/loss", test_loss),
                ("test/accuracy", test_accuracy),
            ],
            directory.path(),
            UploadMode::Sync,
        )?;
        session.finish(json!({ "accuracy": test_accuracy, "epochs": model.epochs }));
        if answer.stop {
            break;
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let root = arguments.next().map_or_else(|| std::env::temp_dir().join("trainhead-digits"), PathBuf::from);
    let fails_at = arguments.next().map(|epoch| epoch.parse()).transpose()?;
    let data_dir = DataDir::open(&root)?;
    let lock = data_dir.try_lock()?.ok_or("a head serves this directory; give another one")?;
    let (state, task) = start(StateOptions::new(data_dir.clone(), lock)).await?;

    let group = ClosureGroup::new(move |session| train(&session, fails_at));
    let options = ControllerOptions {
        name: Some("digits-linfa".to_owned()),
        tags: [("language".to_owned(), "rust".to_owned())].into(),
        settings: Map::from_iter([("epochs".to_owned(), EPOCHS.into()), ("batch".to_owned(), BATCH.into())]),
        failures: FailurePolicy { max_failures: 1, ..FailurePolicy::default() },
        grace: Duration::from_secs(5),
        ..ControllerOptions::new(RunId::generate(), 1, data_dir, Arc::new(SystemClock::new()))
    };
    let result = TrainController::new(options, Arc::new(state), group)?.run().await;
    println!("{}", serde_json::to_string_pretty(&result)?);
    task.shutdown(Duration::from_secs(5)).await;
    println!("see it with: trainhead serve --data-dir {}", root.display());
    if result.exit_code == 0 { Ok(()) } else { Err(result.status_detail.unwrap_or_default().into()) }
}
