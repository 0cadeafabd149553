//! `trainhead metrics`: what a run has measured, as a table and as lines that are drawn with characters.

use std::{process::ExitCode, time::Duration};

use anyhow::bail;
use serde::Deserialize;
use serde_json::Value;

use super::{
    options::{Global, Metrics, MetricsCommand, WhichSeries},
    output::{counted, duration, number, plain, table},
    show::{find, text, with_head},
};
use crate::{
    model::{
        metrics::MetricValue,
        series::{Series, SeriesAnswer},
    },
    state::HttpState,
};

/// Characters of a drawn curve at the most.
const WIDTH: usize = 48;

/// What is known of a metric, as the API answers it.
#[derive(Deserialize)]
pub(super) struct Summary {
    pub(super) key: String,
    count: u64,
    first_step: i64,
    last_step: i64,
    last: MetricValue,
    min: Option<MetricValue>,
    max: Option<MetricValue>,
}

#[derive(Deserialize)]
struct Lost {
    steps: u64,
    ms: u64,
}

#[derive(Deserialize)]
struct Overview {
    metrics: Vec<Summary>,
    lost: Lost,
}

/// `trainhead metrics`
pub(super) async fn metrics(global: &Global, args: &Metrics) -> anyhow::Result<ExitCode> {
    match &args.what {
        MetricsCommand::Ls { run } => ls(global, run).await,
        MetricsCommand::Show { run, keys, which } => show(global, run, keys, which).await,
        MetricsCommand::Export(export) => super::metrics_export::export(global, export).await,
    }
}

/// Where the metrics of a run are.
pub(super) fn path(run: &Value) -> String {
    format!("/api/train/runs/{}/metrics", text(run, "id"))
}

/// The metrics of a run, by name.
pub(super) async fn summaries(http: &HttpState, run: &Value) -> anyhow::Result<Vec<Summary>> {
    Ok(http.get::<Overview>(&path(run), &[]).await?.metrics)
}

async fn ls(global: &Global, run: &str) -> anyhow::Result<ExitCode> {
    let (run, answer): (Value, Value) = with_head(global, async |http| {
        let run = find(http, run).await?;
        let answer = http.get(&path(&run), &[]).await?;
        Ok((run, answer))
    })
    .await?;
    if global.json {
        println!("{answer}");
        return Ok(ExitCode::SUCCESS);
    }
    let Overview { metrics, lost } = Overview::deserialize(answer)?;
    if metrics.is_empty() {
        println!("{} has no metrics", text(&run, "name"));
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<Vec<String>> = metrics.iter().map(row).collect();
    println!("{}", table(&["KEY", "POINTS", "STEPS", "LAST", "MIN", "MAX"], &rows));
    if lost.steps > 0 {
        println!(
            "{} and {} of work were lost to restarts",
            counted(lost.steps, "step"),
            duration(Duration::from_millis(lost.ms))
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn row(summary: &Summary) -> Vec<String> {
    let Summary { key, count, first_step, last_step, last, min, max } = summary;
    let number_or_none = |x: &Option<MetricValue>| x.map_or_else(String::new, |x| number(x.0));
    vec![
        plain(key),
        count.to_string(),
        steps(*first_step, *last_step),
        number(last.0),
        number_or_none(min),
        number_or_none(max),
    ]
}

fn steps(first: i64, last: i64) -> String {
    if first == last { first.to_string() } else { format!("{first}–{last}") }
}

async fn show(global: &Global, run: &str, keys: &[String], which: &WhichSeries) -> anyhow::Result<ExitCode> {
    let (name, answer) = with_head(global, async |http| {
        let run = find(http, run).await?;
        let mut query: Vec<_> = keys.iter().map(|key| ("key", key.clone())).collect();
        query.push(("attempt", which.attempt.clone()));
        query.push(("rank", which.rank.clone()));
        // Its first and last points are the series'.
        query.push(("mode", "lttb".to_owned()));
        query.push(("max_points", WIDTH.to_string()));
        let answer: SeriesAnswer = http.get(&format!("{}/series", path(&run)), &query).await?;
        Ok((text(&run, "name"), answer))
    })
    .await?;
    if let Some(missing) = keys.iter().find(|key| answer.series.iter().all(|series| series.key != **key)) {
        bail!("{name} has no points of {missing:?} there; 'trainhead metrics ls {name}' lists what it has");
    }
    if global.json {
        println!("{}", serde_json::to_string(&answer)?);
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<Vec<String>> = answer.series.iter().map(curve).collect();
    println!("{}", table(&["KEY", "ATTEMPT", "RANK", "STEPS", "CURVE", "LAST"], &rows));
    Ok(ExitCode::SUCCESS)
}

fn curve(series: &Series) -> Vec<String> {
    let values: Vec<f64> = series.value.iter().map(|value| value.0).collect();
    let ends = series.step.first().zip(series.step.last());
    vec![
        plain(&series.key),
        series.attempt.as_str().map_or_else(|| series.attempt.to_string(), plain),
        series.rank.to_string(),
        ends.map_or_else(String::new, |(first, last)| steps(*first, *last)),
        drawn(&values),
        values.last().copied().map_or_else(String::new, number),
    ]
}

/// A character for each value, the higher the greater. What is no number has none.
fn drawn(values: &[f64]) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let finite = || values.iter().copied().filter(|x| x.is_finite());
    let (Some(min), Some(max)) = (finite().reduce(f64::min), finite().reduce(f64::max)) else {
        return " ".repeat(values.len());
    };
    let level = |x: f64| {
        // Halves, since the difference of two numbers may be none.
        let (part, all) = (x / 2.0 - min / 2.0, max / 2.0 - min / 2.0);
        let part = if all > 0.0 { part / all * 7.0 } else { 3.0 };
        LEVELS.get(crate::base::number::whole(part.round())).copied()
    };
    values
        .iter()
        .map(|x| match *x {
            f64::INFINITY => '↑',
            f64::NEG_INFINITY => '↓',
            x if x.is_nan() => ' ',
            x => level(x).unwrap_or(' '),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_drawn_between_its_least_and_greatest_value() {
        assert_eq!(drawn(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]), "▁▂▃▄▅▆▇█");
        assert_eq!(drawn(&[f64::MAX, f64::MIN, f64::NAN, f64::INFINITY, f64::NEG_INFINITY]), "█▁ ↑↓");
        assert_eq!(drawn(&[2.0, 2.0]), "▄▄");
        assert_eq!(drawn(&[f64::NAN]), " ");
        assert_eq!(drawn(&[]), "");
    }
}
