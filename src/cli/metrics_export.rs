//! `trainhead metrics export`: all points of a run, a page at a time, so that memory does not grow with them.

use std::{
    ffi::OsStr,
    fs::File,
    io::{BufWriter, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::{
    metrics::{path, summaries},
    options::{Export, ExportFormat, Global, WhichSeries},
    output::counted,
    parquet::Parquet,
    show::{find, text, with_head},
    terminal::say,
};
use crate::{
    base::number,
    head::formats::{ArrowStream, Csv, Rows},
    model::series::{Series, SeriesAnswer},
    state::HttpState,
};

/// Points of one answer.
const PAGE: usize = 100_000;

/// `trainhead metrics export`
pub(super) async fn export(global: &Global, args: &Export) -> anyhow::Result<ExitCode> {
    let format = format(args)?;
    let written = with_head(global, async |http| {
        let bar = bar(global);
        let source = Source::open(http, args, &bar).await?;
        let mut sink = Sink::open(args.output.as_deref())?;
        let written = match format {
            ExportFormat::Csv => source.write::<Csv>(&mut sink).await,
            ExportFormat::Arrow => source.write::<ArrowStream>(&mut sink).await,
            ExportFormat::Parquet => source.write::<Parquet>(&mut sink).await,
        };
        bar.finish_and_clear();
        let points = written?;
        sink.close()?;
        Ok((source.keys.len(), points))
    })
    .await?;
    let (keys, points) = written;
    let Some(output) = &args.output else { return Ok(ExitCode::SUCCESS) };
    if global.json {
        println!("{}", json!({"path": output, "keys": keys, "points": points}));
    } else if !global.quiet {
        let (points, keys) = (counted(points, "point"), counted(number::size(keys), "metric"));
        say(&format!("{}: {points} of {keys}", output.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn format(args: &Export) -> anyhow::Result<ExportFormat> {
    let extension = args.output.as_deref().and_then(Path::extension).and_then(OsStr::to_str);
    let format = args.format.unwrap_or(match extension {
        Some("parquet") => ExportFormat::Parquet,
        Some("arrow" | "arrows") => ExportFormat::Arrow,
        _ => ExportFormat::Csv,
    });
    if format != ExportFormat::Csv && args.output.is_none() && std::io::stdout().is_terminal() {
        bail!("this is nothing for a terminal; say where to with -o FILE");
    }
    Ok(format)
}

/// What is exported.
struct Source<'a> {
    http: &'a HttpState,
    /// Where the series are.
    path: String,
    keys: Vec<String>,
    which: &'a WhichSeries,
    bar: &'a ProgressBar,
}

/// One series of a key.
struct One {
    attempt: String,
    rank: String,
}

impl<'a> Source<'a> {
    async fn open(http: &'a HttpState, args: &'a Export, bar: &'a ProgressBar) -> anyhow::Result<Self> {
        let run = find(http, &args.run).await?;
        let known: Vec<String> = summaries(http, &run).await?.into_iter().map(|s| s.key).collect();
        if let Some(missing) = args.keys.iter().find(|key| !known.contains(key)) {
            let name = text(&run, "name");
            bail!("{name} has no metric {missing:?}; 'trainhead metrics ls {name}' lists what it has");
        }
        let keys = if args.keys.is_empty() { known } else { args.keys.clone() };
        Ok(Self { http, path: format!("{}/series", path(&run)), keys, which: &args.which, bar })
    }

    /// Writes all points; how many there were.
    async fn write<R: Rows>(&self, sink: &mut Sink) -> anyhow::Result<u64> {
        let (mut rows, head) = R::begin()?;
        sink.write(&head)?;
        let mut points = 0;
        for key in &self.keys {
            self.bar.set_message(super::output::plain(key));
            for one in self.each(key).await? {
                let mut from_step = Some(0);
                while let Some(step) = from_step {
                    from_step = None;
                    for series in self.ask(key, &one, step, PAGE).await? {
                        sink.write(&rows.piece(&series, 0..series.step.len())?)?;
                        points += number::size(series.step.len());
                        self.bar.set_position(points);
                        from_step = series.next_step.filter(|next| *next > step);
                    }
                }
            }
        }
        sink.write(&rows.end()?)?;
        Ok(points)
    }

    /// The series of a key, each of which has pages of its own.
    async fn each(&self, key: &str) -> anyhow::Result<Vec<One>> {
        let asked = One { attempt: self.which.attempt.clone(), rank: self.which.rank.clone() };
        if asked.attempt != "all" && asked.rank != "all" {
            return Ok(vec![asked]);
        }
        let series = self.ask(key, &asked, 0, 1).await?;
        let one = |series: Series| One {
            attempt: series.attempt.as_str().map_or_else(|| series.attempt.to_string(), str::to_owned),
            rank: series.rank.to_string(),
        };
        Ok(series.into_iter().map(one).collect())
    }

    async fn ask(&self, key: &str, one: &One, from_step: i64, points: usize) -> anyhow::Result<Vec<Series>> {
        let query = [
            ("key", key.to_owned()),
            ("attempt", one.attempt.clone()),
            ("rank", one.rank.clone()),
            ("mode", "raw".to_owned()),
            ("max_points", points.to_string()),
            ("from_step", from_step.to_string()),
        ];
        Ok(self.http.get::<SeriesAnswer>(&self.path, &query).await?.series)
    }
}

/// Where it goes: a file that has its name when it is whole, or stdout.
struct Sink {
    out: BufWriter<Box<dyn Write>>,
    file: Option<(PathBuf, PathBuf)>,
}

impl Sink {
    fn open(output: Option<&Path>) -> anyhow::Result<Self> {
        let Some(output) = output else {
            return Ok(Self { out: BufWriter::new(Box::new(std::io::stdout())), file: None });
        };
        let mut partial = output.to_owned().into_os_string();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file =
            File::create(&partial).with_context(|| format!("{} cannot be written", partial.display()))?;
        Ok(Self { out: BufWriter::new(Box::new(file)), file: Some((partial, output.to_owned())) })
    }

    fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.out.write_all(bytes).context("the export cannot be written")
    }

    fn close(mut self) -> anyhow::Result<()> {
        self.out.flush().context("the export cannot be written")?;
        match self.file.take() {
            Some((partial, output)) => std::fs::rename(&partial, &output)
                .with_context(|| format!("{} cannot be written", output.display())),
            None => Ok(()),
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if let Some((partial, _)) = &self.file {
            // It may be gone already.
            let _ = std::fs::remove_file(partial);
        }
    }
}

/// The count on a terminal; nothing elsewhere.
fn bar(global: &Global) -> ProgressBar {
    if global.quiet || global.json {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::no_length();
    match ProgressStyle::with_template("{spinner:.cyan} {human_pos} points, {per_sec}  {wide_msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
