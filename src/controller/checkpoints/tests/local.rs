//! Checkpoints in a directory.

use std::os::unix::fs::symlink;

use super::*;
use crate::controller::validation::{ValidateBy, Validation};

#[tokio::test(flavor = "multi_thread")]
async fn a_rank_that_dies_leaves_nothing_and_the_next_attempt_commits_its_own_files() {
    let run = Run::local(CheckpointOptions::default());
    let opened = run.open();
    assert_eq!(opened.begin(0, 2).await, Resume::default());
    let half = run.files("half", &[("old", "of attempt 0"), ("shared", "x")]);
    opened.hand(shard(0, 0, 10, half.clone())).await.unwrap();
    assert!(run.at(".staging/0/000000/old").exists());
    opened.close(0).await;
    assert_eq!(opened.desk.all(), []);
    assert!(!run.at(".staging").exists(), "the dead staging area is gone");

    assert_eq!(opened.begin(1, 2).await, Resume::default());
    let late = opened.hand(shard(0, 0, 10, half)).await.unwrap_err();
    assert!(late.contains("attempt 0, which takes none"), "{late}");
    opened.hand(shard(1, 0, 10, run.files("r0", &[("m/0", "zero"), ("shared", "x")]))).await.unwrap();
    opened.hand(shard(1, 1, 10, run.files("r1", &[("m/1", "one"), ("shared", "x")]))).await.unwrap();
    let committed = opened.event(|e| match e {
        CheckpointEvent::Committed(c) => Some(c),
        _ => None,
    });
    let committed = committed.await;
    let dir = PathBuf::from(&committed.record.uri);
    let mut files = tree(&dir);
    let manifest = Manifest::parse(files.remove("MANIFEST.json").unwrap().as_bytes()).unwrap();
    assert_eq!(
        files,
        [("m/0", "zero"), ("m/1", "one"), ("shared", "x")].map(|(a, b)| (a.into(), b.into())).into()
    );
    assert_eq!((manifest.attempt, manifest.step, manifest.ranks), (1, 10, vec![0, 1]));
    assert_eq!(manifest.files.len(), 3);
    assert_eq!(opened.desk.newest(), Some(Newest { number: committed.number, step: 10 }));
    opened.close(1).await;
    assert!(!run.at(".staging").exists());
    let card: serde_json::Value = serde_json::from_slice(&fs::read(run.at("run.json")).unwrap()).unwrap();
    assert_eq!((card["run_id"].as_str(), card["name"].as_str()), (Some("run-1"), Some("a run")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_best_and_the_latest_are_kept_apart_and_one_that_is_removed_by_hand_is_noted() {
    let run = Run::local(keep(1));
    let opened = run.open();
    opened.begin(0, 1).await;
    opened.one(&run, 0, 1, 0.9).await;
    opened.one(&run, 0, 2, 0.8).await;
    let listed = opened.desk.list(Consistency::Committed, None, None).await;
    let flags: Vec<_> = listed.iter().map(|c| (c.step, c.best, c.latest)).collect();
    assert_eq!(flags, [(1, true, false), (2, false, true)]);
    opened.one(&run, 0, 3, 0.7).await;
    use CheckpointState::{Committed, Deleted, Missing};
    assert_eq!(opened.states(), [(0, Committed), (1, Deleted), (2, Committed)].into());
    assert!(!run.at("checkpoint_000001").exists() && run.at("checkpoint_000000").exists());

    fs::remove_dir_all(run.at("checkpoint_000000")).unwrap();
    opened.one(&run, 0, 4, 0.1).await;
    assert_eq!(opened.states()[&0], Missing);
    let later: Vec<_> =
        opened.states().into_iter().filter(|(_, s)| *s == Committed).map(|(n, _)| n).collect();
    assert_eq!(later, [2, 3], "the best of those that are there, and the latest");

    // The counts go on in another controller, as a resume has it.
    drop(opened);
    let opened = run.open();
    let resume = opened.begin(1, 1).await;
    assert_eq!(resume.from.unwrap().number, 3);
    opened.one(&run, 1, 5, 0.5).await;
    assert_eq!(opened.states()[&3], Deleted);
    assert_eq!(opened.states().len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_pinned_stays_until_it_is_not() {
    let run = Run::local(keep(1));
    let opened = run.open();
    opened.desk.set_pinned([0].into());
    opened.begin(0, 1).await;
    for step in 0..3 {
        opened.one(&run, 0, step, 1.0).await;
    }
    assert!(run.at("checkpoint_000000").exists() && !run.at("checkpoint_000001").exists());
    opened.desk.set_pinned(BTreeSet::new());
    opened.settled().await;
    assert!(!run.at("checkpoint_000000").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_checkpoint_is_marked_and_the_one_before_is_taken() {
    let run = Run::local(CheckpointOptions::default());
    let opened = run.open();
    opened.begin(0, 1).await;
    for step in [10, 20, 30] {
        opened.one(&run, 0, step, 1.0).await;
    }
    drop(opened);
    fs::write(run.at("checkpoint_000002/weights"), "weights").unwrap();
    fs::write(run.at("checkpoint_000001/weights"), "WEIGHTS of 20").unwrap();
    let opened = run.open();
    let Resume { from, notes, failed } = opened.begin(1, 1).await;
    let from = from.unwrap();
    assert_eq!((from.number, from.step, from.path), (0, 10, Some(run.at("checkpoint_000000"))));
    assert_eq!(
        notes,
        [
            "checkpoint 2 of step 30 is corrupt: weights has 7 bytes in place of 13",
            "checkpoint 1 of step 20 is corrupt: weights has other bytes",
        ]
    );
    assert!(!failed);
    opened.one(&run, 1, 20, 1.0).await;
    assert_eq!(opened.desk.newest(), Some(Newest { number: 3, step: 20 }), "no number is used twice");
    assert_eq!(opened.desk.fetch_latest().await.unwrap().unwrap().number, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_is_killed_leaves_nothing_that_looks_like_a_checkpoint_and_loses_none() {
    let run = Run::local(CheckpointOptions::default());
    let opened = run.open();
    opened.begin(0, 2).await;
    opened.desk.passed(0, 1, 5);
    opened.one(&run, 0, 5, 1.0).await;
    // One whose bytes were on their way, one that was whole before the snapshot said so, one half removed.
    opened.hand(shard(0, 0, 6, run.files("six", &[("a", "a")]))).await.unwrap();
    opened.tasks.shutdown("the test", Duration::ZERO).await;
    drop(opened);
    write_all(&run.at(".staging/0/000009"), &[("half", "h")]);
    write_all(&run.at(".staging/deleted/checkpoint_000004"), &[("half", "h")]);
    fs::remove_file(run.at("checkpoints.json")).unwrap();

    let opened = run.open();
    let resume = opened.begin(1, 1).await;
    assert_eq!(resume.from.map(|u| (u.number, u.step)), Some((0, 5)), "it is found by its manifest");
    let names = || -> BTreeSet<String> {
        fs::read_dir(run.run_dir()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    };
    opened.settled().await;
    let whole = ["checkpoint_000000", "checkpoints.json", "run.json"].map(str::to_owned);
    assert_eq!(names(), whole.clone().into());
    opened.one(&run, 1, 6, 1.0).await;
    assert_eq!(opened.desk.newest().unwrap().number, 10, "also not one that came to nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_of_a_newer_release_is_left_as_it_is() {
    let run = Run::local(CheckpointOptions::default());
    let newer = r#"{"version": 7}"#;
    write_all(&run.run_dir(), &[("checkpoints.json", newer)]);
    let opened = run.open();
    let resume = opened.begin(0, 1).await;
    assert!(resume.failed && resume.notes[0].contains("version 7") && resume.notes[0].contains("up to 1"));
    let refused = opened.hand(shard(0, 0, 1, run.files("x", &[("a", "a")]))).await.unwrap_err();
    assert!(refused.contains("version 7"), "{refused}");
    assert_eq!(fs::read_to_string(run.at("checkpoints.json")).unwrap(), newer);
    fs::remove_file(run.at("checkpoints.json")).unwrap();
    assert!(!opened.begin(1, 1).await.failed, "the next attempt tries again");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_mode_moves_the_bytes_and_deletes_only_what_was_committed() {
    let run = Run::local(CheckpointOptions::default());
    let opened = run.open();
    opened.begin(0, 1).await;
    let with = |step, path: &Path, upload_mode, delete_local| {
        let mut shard = shard(0, 0, step, path.to_owned());
        (shard.handed.upload_mode, shard.handed.delete_local) = (upload_mode, delete_local);
        shard
    };
    let sync = run.files("sync", &[("a", "1")]);
    opened.hand(with(1, &sync, UploadMode::Sync, true)).await.unwrap();
    let slow = run.files("async", &[("a", "2")]);
    opened.hand(with(2, &slow, UploadMode::Async, false)).await.unwrap();
    let outside = run.files("outside", &[("a", "3")]);
    let refused = opened.hand(with(3, &outside, UploadMode::NoUpload, false)).await.unwrap_err();
    assert!(refused.contains("must lie in") && refused.contains("outside"), "{refused}");
    let inside = run.at("mine/deep");
    write_all(&inside, &[("a", "4"), ("b/c", "5")]);
    symlink("a", inside.join("link")).unwrap();
    opened.hand(with(4, &inside, UploadMode::NoUpload, false)).await.unwrap();
    opened.settled().await;
    assert!(!sync.exists() && slow.exists() && !inside.exists());
    let last = tree(&run.at("checkpoint_000002"));
    assert_eq!((last["a"].as_str(), last["b/c"].as_str(), last["link"].as_str()), ("4", "5", "4"));
    let own = run.at("checkpoint_000001");
    let refused = opened.hand(with(5, &own, UploadMode::Sync, true)).await.unwrap_err();
    assert!(refused.contains("is a checkpoint of the run"), "{refused}");
    let refused = opened.hand(with(5, run.dir.path(), UploadMode::Sync, false)).await.unwrap_err();
    assert!(refused.contains("holds the run's own checkpoints"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_cannot_be_moved_makes_its_checkpoint_fail_by_name() {
    let run = Run::local(CheckpointOptions::default());
    let opened = run.open();
    opened.begin(0, 2).await;
    let odd = run.files("odd", &[("a", "1")]);
    symlink("/etc/hostname", odd.join("out")).unwrap();
    opened.hand(shard(0, 1, 1, run.files("fine", &[("b", "1")]))).await.unwrap();
    let error = opened.hand(shard(0, 0, 1, odd)).await.unwrap_err();
    assert!(error.contains("out is a link that leads out"), "{error}");
    let said = opened.event(|e| match e {
        CheckpointEvent::Failed(why) => Some(why),
        _ => None,
    });
    assert!(said.await.starts_with("the checkpoint of step 1 failed: the shard of rank 0 was not moved"));
    opened.close(0).await;
    assert!(opened.desk.all().is_empty() && !run.at(".staging").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_that_are_waited_for_are_told_and_a_list_waits_for_what_was_handed_in() {
    let options = CheckpointOptions {
        warn_interval: Duration::from_millis(40),
        collective_timeout: Some(Duration::from_secs(90)),
        ..CheckpointOptions::default()
    };
    let run = Run::local(options);
    let opened = run.open();
    opened.begin(0, 2).await;
    opened.hand(shard(0, 0, 10, run.files("x", &[("a", "1")]))).await.unwrap();
    assert_eq!(opened.desk.list(Consistency::Committed, None, Some(Duration::ZERO)).await, []);
    run.clock.advance(Duration::from_secs(60));
    let waits = |e| match e {
        CheckpointEvent::Waits(waits) => Some(waits),
        _ => None,
    };
    assert!(opened.event(waits).await.unwrap().contains("step 10 waits for rank 1 for 60 s"));
    run.clock.advance(Duration::from_secs(60));
    let timed_out = opened.event(|e| match e {
        CheckpointEvent::TimedOut(words) => Some(words),
        _ => None,
    });
    assert!(timed_out.await.contains("waits for rank 1 for 120 s"));
    let list = opened.desk.list(Consistency::Validated, None, None);
    let hand = async { opened.desk.rank_done(0, 1) };
    let (list, ()) = timeout(LIMIT, async { tokio::join!(list, hand) }).await.unwrap();
    assert_eq!(list.len(), 1);
    assert_eq!(opened.event(waits).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_validation_re_ranks_and_one_that_was_pending_is_taken_up_by_the_next_controller() {
    let measure = |usable: &Usable| {
        let weights = fs::read_to_string(usable.path.as_ref().unwrap().join("weights")).unwrap();
        match weights.as_str() {
            "weights of 2" => Err("it is even".to_owned()),
            _ => Ok(BTreeMap::from([("a".to_owned(), -f64::from(u32::try_from(usable.step).unwrap()))])),
        }
    };
    let validation =
        Validation { by: ValidateBy::Closure(Arc::new(measure)), timeout: LIMIT, concurrency: 1 };
    let run = Run::local(CheckpointOptions { validation: Some(validation), ..keep(2) });
    let opened = run.open();
    opened.begin(0, 1).await;
    opened.one(&run, 0, 1, 0.0).await;
    opened.tasks.shutdown("the test", Duration::ZERO).await;
    drop(opened);
    let opened = run.open();
    opened.begin(1, 1).await;
    for step in [2, 3] {
        opened.one(&run, 1, step, 0.0).await;
    }
    let closed = opened.desk.close_attempt(1, Wait::Validations);
    timeout(LIMIT, closed).await.unwrap().unwrap();
    let all = opened.desk.all();
    let shown: Vec<_> = all.iter().map(|c| (c.record.state, c.record.metrics["a"].0)).collect();
    use CheckpointState::{Validated, ValidationFailed};
    assert_eq!(shown[1], (ValidationFailed, 0.0));
    assert_eq!(all[1].record.status_detail.as_deref(), Some("its validation failed: it is even"));
    assert_eq!(shown[0], (Validated, -1.0));
    assert_eq!(shown[2], (Validated, -3.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_waited_for_after_giving_up() {
    let run = Run::local(CheckpointOptions::default());
    let opened = run.open();
    opened.begin(0, 2).await;
    opened.hand(shard(0, 0, 1, run.files("x", &[("a", "1")]))).await.unwrap();
    let closed = opened.desk.close_attempt(0, Wait::Validations);
    opened.desk.give_up();
    timeout(LIMIT, closed).await.unwrap().unwrap();
    assert_eq!(opened.desk.all(), []);
}

#[tokio::test]
async fn a_checkpoint_is_verified_and_fetched_by_its_address() {
    let run = Run::local(CheckpointOptions::default());
    let opened = run.open();
    opened.begin(0, 1).await;
    opened.one(&run, 0, 1, 1.0).await;
    let uri = opened.desk.all()[0].record.uri.clone();
    let whole = storage::verify(&uri, |_, _| {}).await.unwrap();
    assert!(matches!(whole, storage::Verified::Whole(m) if m.step == 1));
    let into = run.dir.path().join("got");
    storage::fetch(&uri, &into, |_, _| {}).await.unwrap();
    assert_eq!(tree(&into), tree(Path::new(&uri)));
    assert!(storage::fetch(&uri, &into, |_, _| {}).await.unwrap_err().contains("is there already"));
    fs::write(Path::new(&uri).join("weights"), "Weights of 1").unwrap();
    let broken = storage::verify(&uri, |_, _| {}).await.unwrap();
    assert!(matches!(broken, storage::Verified::Broken(wrong) if wrong == ["weights has other bytes"]));
    let other = run.dir.path().join("other");
    assert!(storage::fetch(&uri, &other, |_, _| {}).await.unwrap_err().contains("other bytes"));
    assert!(!other.exists());
    assert!(matches!(
        storage::verify("/nowhere", |_, _| {}).await.unwrap(),
        storage::Verified::Broken(wrong) if wrong == ["it is not there"]
    ));
}
