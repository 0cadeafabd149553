//! Where options come from: flags, then the environment, then a TOML file, then defaults.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{ArgMatches, CommandFactory, FromArgMatches, parser::ValueSource};
use toml::{Table, Value};

use super::options::{Cli, Global};
use crate::{base::masking::MASK, head::webhooks::WebhookUrl};

/// Why the options cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ParseError {
    /// The command line is wrong, or asks for help.
    #[error(transparent)]
    Usage(#[from] clap::Error),
    /// The file cannot be read.
    #[error("the configuration file {path} cannot be read")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("the configuration file {path} is not TOML")]
    Toml {
        path: PathBuf,
        #[source]
        source: Box<toml::de::Error>,
    },
    /// The file says something that there is no option for.
    #[error("the configuration file {path} has {key:?}, which is no option; see 'trainhead {command}--help'")]
    Unknown { path: PathBuf, key: String, command: String },
}

/// An option with its value and where that comes from.
pub(super) struct Source {
    name: String,
    value: String,
    source: String,
}

/// Options of the program itself, which mean nothing in a file.
const NOT_IN_FILE: [&str; 5] = ["config", "help", "version", "command", "run"];

/// Reads the command line, the environment and the file.
pub(super) fn parse() -> Result<(Cli, Vec<Source>), ParseError> {
    // The first pass finds the file only; its own faults are those of the second.
    let first = Cli::command().ignore_errors(true).get_matches();
    let named = first.try_get_one::<PathBuf>("config").ok().flatten().cloned();
    let path = named.clone().or_else(|| default_path().filter(|path| path.is_file()));
    let mut command = Cli::command();
    let mut from_file = Vec::new();
    if let Some(path) = &path {
        let table = read(path)?;
        command = apply(command, &table, "", path, &mut from_file)?;
    }
    let matches = command.clone().try_get_matches()?;
    let sources = sources(&command, &matches, &from_file, path.as_deref());
    Ok((Cli::from_arg_matches(&matches)?, sources))
}

fn default_path() -> Option<PathBuf> {
    directories::ProjectDirs::from("", "", "trainhead").map(|dirs| dirs.config_dir().join("config.toml"))
}

fn read(path: &Path) -> Result<Table, ParseError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ParseError::Read { path: path.to_owned(), source })?;
    text.parse().map_err(|e| ParseError::Toml { path: path.to_owned(), source: Box::new(e) })
}

/// Makes the file's values the defaults of the options; a table `[run]` is for the command `run`.
fn apply(
    mut command: clap::Command,
    table: &Table,
    prefix: &str,
    path: &Path,
    from_file: &mut Vec<String>,
) -> Result<clap::Command, ParseError> {
    for (key, value) in table {
        let unknown =
            || ParseError::Unknown { path: path.to_owned(), key: key.clone(), command: prefix.to_owned() };
        if let Value::Table(inner) = value {
            let known = command.get_subcommands().any(|c| c.get_name() == key);
            if !known || !prefix.is_empty() {
                return Err(unknown());
            }
            let below = command.find_subcommand(key).cloned().ok_or_else(unknown)?;
            let below = apply(below, inner, &format!("{key} "), path, from_file)?;
            command = command.mut_subcommand(key, |_| below);
            continue;
        }
        let id = key.replace('-', "_");
        let known = command.get_arguments().any(|a| a.get_id() == id.as_str());
        if !known || NOT_IN_FILE.contains(&id.as_str()) {
            return Err(unknown());
        }
        let values: Vec<String> = match value {
            Value::Array(items) => items.iter().map(text).collect(),
            single => vec![text(single)],
        };
        from_file.push(id.clone());
        command = command.mut_arg(&id, |arg| arg.default_values(values.clone()));
    }
    Ok(command)
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Integer(n) => n.to_string(),
        Value::Float(x) => x.to_string(),
        Value::Boolean(b) => b.to_string(),
        Value::Datetime(time) => time.to_string(),
        // Lists of lists and lists of tables: refused by the option's own parser.
        Value::Array(_) | Value::Table(_) => format!("{value:?}"),
    }
}

fn sources(
    command: &clap::Command,
    matches: &ArgMatches,
    from_file: &[String],
    path: Option<&Path>,
) -> Vec<Source> {
    let shown = |arg: &&clap::Arg| !NOT_IN_FILE[1..].contains(&arg.get_id().as_str());
    command
        .get_arguments()
        .filter(shown)
        .map(|arg| {
            let id = arg.get_id().as_str();
            let raw = matches.try_get_raw(id).ok().flatten();
            let value = raw
                .map(|values| {
                    values.map(|v| printable(id, &v.to_string_lossy())).collect::<Vec<_>>().join(",")
                })
                .unwrap_or_default();
            let source = match matches.value_source(id) {
                Some(ValueSource::CommandLine) => "command line".to_owned(),
                Some(ValueSource::EnvVariable) => {
                    arg.get_env().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
                }
                _ if from_file.iter().any(|key| key == id) => {
                    path.map(|p| p.display().to_string()).unwrap_or_default()
                }
                _ => "default".to_owned(),
            };
            Source { name: id.replace('_', "-"), value, source }
        })
        .collect()
}

/// A value as it may be shown: secrets are not, and an address of a webhook may be one.
fn printable(id: &str, value: &str) -> String {
    match id {
        "webhook_secret" => MASK.to_owned(),
        "webhook" => {
            let host = value.parse::<WebhookUrl>().map(|url| url.host().to_owned()).unwrap_or_default();
            format!("{host}/{MASK}")
        }
        _ => value.to_owned(),
    }
}

/// Prints the effective options and where each comes from.
pub(super) fn print(global: &Global, sources: &[Source]) -> anyhow::Result<ExitCode> {
    let effective = |source: &Source| match source.name.as_str() {
        "data-dir" if source.value.is_empty() => {
            super::head::data_dir_path(global).map(|path| path.display().to_string()).unwrap_or_default()
        }
        _ => source.value.clone(),
    };
    if global.json {
        let rows: Vec<_> = sources
            .iter()
            .map(|s| serde_json::json!({"name": s.name, "value": effective(s), "source": s.source}))
            .collect();
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        for source in sources {
            println!("{:<16} {:<40} {}", source.name, effective(source), source.source);
        }
    }
    Ok(ExitCode::SUCCESS)
}
