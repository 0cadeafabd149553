//! What a point needs on the disk: a million of each kind, when their run has ended and all is sealed.

use crate::{
    points::{Form, Kind, Shape, Values},
    seed,
    server::Server,
    store::{REST, Size, float, mib},
};

const POINTS: u32 = 1_000_000;
const SHAPE: Shape = Shape { form: Form::Columns, keys: 10, steps: 100 };

pub(crate) async fn measure() -> anyhow::Result<()> {
    println!("## Bytes a point on disk: {POINTS} points, {} keys, sealed\n", SHAPE.keys);
    println!(
        "| values | bytes a point | database before and after, MiB | of these free, MiB |\n|---|---|---|---|"
    );
    let Size { used: empty, .. } = stored(None).await?;
    for (kind, what) in Kind::ALL {
        let Size { file, used } = stored(Some(kind)).await?;
        println!(
            "| {what} | **{:.2}** | {:.2}, {:.2} | {:.2} |",
            float(used - empty) / f64::from(POINTS),
            mib(empty),
            mib(file),
            mib(file - used)
        );
    }
    println!();
    Ok(())
}

/// The size of a store of one run that has reported such values, or none.
async fn stored(kind: Option<Kind>) -> anyhow::Result<Size> {
    let dir = tempfile::tempdir()?;
    let head = Server::head_at(dir.path()).await?;
    let mut connection = head.connect().await?;
    let mut run = seed::Run::begin(&mut connection, "bench").await?;
    if let Some(kind) = kind {
        let mut reports = run.reports(SHAPE, &Values::new(kind, POINTS)?, 0)?;
        run.report(&mut reports, usize::try_from(POINTS)? / SHAPE.points()).await?;
    }
    run.finish().await?;
    head.quiet(REST).await?;
    head.end().await?;
    Size::of(dir.path())
}
