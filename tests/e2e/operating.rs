//! What operators do: backups, clearing away, and the doctor.

use std::{
    collections::BTreeMap,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Output,
};

use rustix::process::Signal;
use serde_json::Value;
use sqlx::{Connection, SqliteConnection};

use crate::harness::{Guard, Place, wait_for};

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Does to a store what no program of ours does.
fn spoil(place: &Place, sql: &'static str) {
    let url = format!("sqlite://{}", text(&place.data().join("trainhead.db")));
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let mut connection = SqliteConnection::connect(&url).await.unwrap();
        let done = sqlx::query(sql).execute(&mut connection).await.unwrap();
        assert_eq!(done.rows_affected(), 1);
        connection.close().await.unwrap();
    });
}

/// Every file below a directory, with what is in it.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.insert(entry.path(), fs::read(entry.path()).unwrap());
        }
    }
    found
}

#[test]
fn a_backup_of_a_directory_that_is_served_and_written_can_be_served_itself() {
    let (place, restored, records) = (Place::new(), Place::new(), Place::new());
    let head = place.serve(&[]);
    let go = place.path("go");
    let script = format!("i=0; while [ ! -e {} ]; do i=$((i+1)); echo line $i; done\n", go.display());
    let script = place.file("t.sh", &script);
    let mut run = place
        .command(&["run", "--tail", "none", "--name", "b", "--", "sh", &script])
        .spawn()
        .map(Guard)
        .unwrap();
    let id = wait_for("the run", || {
        let run = head.runs().into_iter().find(|r| r["phase"] == "RUNNING")?;
        Some(run["id"].as_str().unwrap().to_owned())
    });
    let log = place.data().join(format!("runs/{id}/logs/0/rank_0.log"));
    wait_for("a long log", || log.metadata().is_ok_and(|m| m.len() > 100_000).then_some(()));

    let made = place.output(&["backup", "--json", &text(&restored.data())]);
    assert!(made.status.success(), "{}", told(&made));
    let made = json(&made);
    assert_eq!((&made["runs"], &made["path"]), (&1.into(), &text(&restored.data()).into()));
    assert!(made["files_bytes"].as_u64().unwrap() > 100_000, "{made}");
    assert_eq!(restored.data().metadata().unwrap().permissions().mode() & 0o777, 0o700);
    let made = place.output(&["backup", "--no-files", &text(&records.data())]);
    assert!(told(&made).contains("trainhead serve --data-dir"), "{}", told(&made));
    assert!(run.try_wait().unwrap().is_none(), "training goes on");
    fs::write(&go, "").unwrap();
    assert!(run.wait().unwrap().success());
    assert_eq!(head.runs()[0]["run_status"], "FINISHED");
    assert_eq!(fs::read_dir(restored.dir.path()).unwrap().count(), 1, "nothing unfinished is left");

    for (copy, has_logs) in [(&restored, true), (&records, false)] {
        let head = copy.serve(&[]);
        let run = head.runs().remove(0);
        assert_eq!((run["id"].as_str(), run["name"].as_str()), (Some(id.as_str()), Some("b")));
        assert_eq!(run["run_status"], "ABORTED", "its controller ended after the backup was made");
        let logs = copy.output(&["logs", "b"]);
        assert_eq!(String::from_utf8_lossy(&logs.stdout).starts_with("line 1\nline 2\n"), has_logs);
    }
}

#[test]
fn a_backup_goes_nowhere_where_something_is() {
    let place = Place::new();
    let dest = place.path("backup");
    let none = place.output(&["backup", &text(&dest)]);
    assert_eq!(none.status.code(), Some(1));
    assert!(told(&none).contains("--data-dir") && !place.data().exists(), "{}", told(&none));
    assert!(place.run(&["--", "true"]).status.success());
    fs::create_dir(&dest).unwrap();
    assert!(place.output(&["backup", &text(&dest)]).status.success(), "an empty directory will do");
    let before = files(&dest);
    let again = place.output(&["backup", &text(&dest)]);
    assert_eq!(again.status.code(), Some(1));
    assert!(told(&again).contains("not empty"), "{}", told(&again));
    assert!(files(&dest) == before, "what was there is untouched");
}

#[test]
fn gc_says_what_it_would_do_fills_the_trash_and_empties_it() {
    let place = Place::new();
    for name in ["one", "two", "three"] {
        assert!(place.run(&["--name", name, "--", "echo", "hello"]).status.success());
    }
    let id = |name: &str| place.show(name)["id"].as_str().unwrap().to_owned();
    let (one, two, three) = (id("one"), id("two"), id("three"));
    let has_files = |id: &str| place.data().join("runs").join(id).exists();
    let listed = || {
        let list = json(&place.output(&["runs", "--json"]));
        list["total_size"].as_u64().unwrap()
    };

    for (args, option) in
        [(&["gc"][..], "--older-than"), (&["gc", "--keep", "1", "--trash-for", "1d"], "--purge")]
    {
        let refused = place.output(args);
        assert_eq!(refused.status.code(), Some(2));
        assert!(told(&refused).contains(option), "{}", told(&refused));
    }
    assert_eq!(place.output(&["gc", "--older-than", "30"]).status.code(), Some(2), "no unit");

    let dry = json(&place.output(&["gc", "--keep", "1", "--dry-run", "--json"]));
    assert_eq!((&dry["trashed"], &dry["dry_run"]), (&serde_json::json!([one, two]), &true.into()));
    assert_eq!(listed(), 3, "a dry run changes nothing");

    let trashed = told(&place.output(&["gc", "--keep", "1"]));
    assert!(trashed.contains("2 runs went to the trash") && trashed.contains(&one), "{trashed}");
    assert_eq!(listed(), 1);
    assert!(has_files(&one) && has_files(&two), "nothing is deleted without --purge");

    let head = place.serve(&[]);
    let early = told(&place.output(&["gc", "--purge"]));
    assert!(early.contains("nothing to clear away"), "{early}");
    let purged = json(&place.output(&["gc", "--purge", "--trash-for", "0s", "--json"]));
    assert_eq!(purged["purged"], serde_json::json!([one, two]));
    assert!(purged["freed_bytes"].as_u64().unwrap() > 0 && purged["remaining"] == 0, "{purged}");
    assert!(!has_files(&one) && !has_files(&two) && has_files(&three));
    assert_eq!(head.runs().len(), 1);
    assert!(place.output(&["show", &one]).status.code() == Some(1));
}

/// What the doctor finds, and its exit code.
fn doctor(place: &Place) -> (Vec<Value>, i32) {
    // Port 0 is always free; the default one may be anybody's.
    let output = place.output(&["doctor", "--json", "--port", "0"]);
    (json(&output).as_array().unwrap().clone(), output.status.code().unwrap())
}

#[track_caller]
fn finding(findings: &[Value], check: &str) -> (String, String) {
    let found =
        findings.iter().find(|f| f["check"] == check).unwrap_or_else(|| panic!("no {check}: {findings:?}"));
    (found["status"].as_str().unwrap().to_owned(), found["found"].as_str().unwrap().to_owned())
}

#[test]
fn the_doctor_finds_nothing_wrong_with_a_healthy_directory_and_changes_nothing() {
    let place = Place::new();
    let (findings, code) = doctor(&place);
    assert_eq!((code, finding(&findings, "data dir").0.as_str()), (0, "warning"), "there is none yet");
    assert!(!place.data().exists());

    let head = place.serve(&[]);
    let go = place.path("go");
    let script = place.file("t.sh", &format!("while [ ! -e {} ]; do sleep 0.02; done\n", go.display()));
    let mut run = place.command(&["run", "--name", "r", "--", "sh", &script]).spawn().map(Guard).unwrap();
    wait_for("the run", || head.runs().into_iter().find(|r| r["phase"] == "RUNNING"));
    let (findings, code) = doctor(&place);
    assert_eq!(code, 0, "{findings:?}");
    for check in ["data dir", "privacy", "store", "migrations", "records", "files", "head", "version", "port"]
    {
        assert_eq!(finding(&findings, check).0, "ok", "{check}: {findings:?}");
    }
    assert!(finding(&findings, "records").1.contains("all 1 runs"));
    assert!(finding(&findings, "head").1.contains(&head.url));
    assert!(finding(&findings, "open files").1.contains("1 live runs"));
    fs::write(&go, "").unwrap();
    assert!(run.wait().unwrap().success());
    head.signal(Signal::TERM);
    let mut head = head;
    assert!(head.child.wait().unwrap().success());

    fs::create_dir(place.data().join("runs/of-another-head")).unwrap();
    let before = files(&place.data());
    let (findings, code) = doctor(&place);
    assert_eq!(code, 0, "{findings:?}");
    assert!(finding(&findings, "head").1.contains("no head"));
    assert!(finding(&findings, "files").1.starts_with("1 directories"));
    let after = files(&place.data());
    assert!(after.keys().eq(before.keys()), "{:?}", after.keys());
    assert!(after == before, "a file was changed");
    let people = place.output(&["doctor", "--full", "--port", "0"]);
    assert!(people.status.success() && told(&people).contains("0 problems"), "{}", told(&people));
    assert!(!told(&people).contains('\x1b'), "no colours without a terminal");
}

#[test]
fn the_doctor_names_what_is_wrong() {
    let place = Place::new();
    for name in ["one", "two", "three"] {
        assert!(place.run(&["--name", name, "--", "true"]).status.success());
    }
    let id = |name: &str| place.show(name)["id"].as_str().unwrap().to_owned();
    let (one, two, three) = (id("one"), id("two"), id("three"));
    fs::set_permissions(place.data(), Permissions::from_mode(0o755)).unwrap();
    let (findings, code) = doctor(&place);
    assert_eq!((code, finding(&findings, "privacy").0.as_str()), (0, "warning"));
    assert!(findings.iter().any(|f| f["advice"].as_str().is_some_and(|a| a.starts_with("chmod 700"))));

    spoil(&place, "update runs set end_time_ms = start_time_ms - 1 where name = 'one'");
    spoil(&place, "update runs set doc = replace(doc, 'two', 'owt') where name = 'two'");
    let (findings, code) = doctor(&place);
    assert_eq!(code, 1);
    let (status, found) = finding(&findings, "records");
    assert_eq!(status, "problem");
    assert!(found.contains("2 of 3") && found.contains(&one) && found.contains(&two), "{found}");
    assert!(found.contains("a run ends after its start") && !found.contains(&three), "{found}");

    spoil(
        &place,
        "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
        values (999, 'later', 1, x'00', 0)",
    );
    let (findings, code) = doctor(&place);
    let (status, found) = finding(&findings, "migrations");
    assert_eq!((code, status.as_str()), (1, "problem"));
    assert!(found.contains("version 999") && found.contains("up to"), "{found}");
}
