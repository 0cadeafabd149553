//! A Rust closure as the train function of an embedded controller: linear regression by gradient descent on two ranks,
//! recorded in a data directory that `trainhead serve --data-dir DIR` shows.
//!
//! `cargo run --example linear -- /tmp/linear`

use std::{
    error::Error,
    path::PathBuf,
    sync::{Arc, Barrier, Mutex},
    time::Duration,
};

use serde_json::Map;
use trainhead::{
    base::{RunId, SystemClock},
    controller::{ClosureGroup, ControllerOptions, TrainController, WorkerSession},
    state::{DataDir, StateOptions, start},
};

const RANKS: usize = 2;
const EPOCHS: u64 = 200;

/// Points on y = 3x − 2 with a little noise that is the same every time.
fn data() -> Vec<(f64, f64)> {
    (0..200)
        .map(|i| f64::from(i) / 100.0 - 1.0)
        .map(|x| (x, 3.0 * x - 2.0 + 0.05 * (37.0 * x).sin()))
        .collect()
}

/// What the ranks share: an all-reduce of gradients, by a barrier and a sum.
struct AllReduce {
    barrier: Barrier,
    sum: Mutex<(f64, f64, f64)>,
}

impl AllReduce {
    fn add(&self, part: (f64, f64, f64)) -> (f64, f64, f64) {
        let add = |mut sum: std::sync::MutexGuard<'_, (f64, f64, f64)>| {
            *sum = (sum.0 + part.0, sum.1 + part.1, sum.2 + part.2);
        };
        add(self.sum.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        self.barrier.wait();
        let total = *self.sum.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if self.barrier.wait().is_leader() {
            *self.sum.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = (0.0, 0.0, 0.0);
        }
        self.barrier.wait();
        total
    }
}

fn train(session: &WorkerSession, reduce: &AllReduce) -> Result<(), Box<dyn Error + Send + Sync>> {
    let data = data();
    let rank = usize::try_from(session.context().rank)?;
    let n = f64::from(u32::try_from(data.len())?);
    let (mut slope, mut offset) = (0.0, 0.0);
    for epoch in 0..EPOCHS {
        let mine = data.iter().skip(rank).step_by(RANKS).fold((0.0, 0.0, 0.0), |sum, (x, y)| {
            let error = slope * x + offset - y;
            (sum.0 + error * x, sum.1 + error, sum.2 + error * error)
        });
        let (d_slope, d_offset, loss) = reduce.add(mine);
        slope -= 2.0 * d_slope / n;
        offset -= 1.0 * d_offset / n;
        // Every rank is told to stop at the same report or a later one, so leaving is left to the end of the run here.
        session.report(Some(epoch), [("loss", loss / n), ("slope", slope), ("offset", offset)])?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let root =
        std::env::args().nth(1).map_or_else(|| std::env::temp_dir().join("trainhead-linear"), PathBuf::from);
    let data_dir = DataDir::open(&root)?;
    let lock = data_dir.try_lock()?.ok_or("a head serves this directory; give another one")?;
    let options = StateOptions::new(data_dir.clone(), lock);
    let (state, task) = start(options).await?;

    let reduce = Arc::new(AllReduce { barrier: Barrier::new(RANKS), sum: Mutex::default() });
    let group = ClosureGroup::new(move |session| train(&session, &reduce));
    let options = ControllerOptions {
        name: Some("linear".to_owned()),
        tags: [("language".to_owned(), "rust".to_owned())].into(),
        settings: Map::from_iter([("epochs".to_owned(), EPOCHS.into())]),
        grace: Duration::from_secs(5),
        ..ControllerOptions::new(
            RunId::generate(),
            u32::try_from(RANKS)?,
            data_dir,
            Arc::new(SystemClock::new()),
        )
    };
    let result = TrainController::new(options, Arc::new(state), group)?.run().await;
    println!("{}", serde_json::to_string_pretty(&result)?);
    task.shutdown(Duration::from_secs(5)).await;
    println!("see it with: trainhead serve --data-dir {}", root.display());
    if result.exit_code == 0 { Ok(()) } else { Err(result.status_detail.unwrap_or_default().into()) }
}
