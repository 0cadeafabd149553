//! Checkpoints in an object store.

use object_store::{ObjectStoreExt, path::Path as Key};

use super::*;
use crate::controller::checkpoints::written::MANIFEST;

impl Run {
    async fn put(&self, key: &str, bytes: &str) {
        let key = Key::from(format!("p/default/run-1/{key}"));
        self.store.as_ref().unwrap().put(&key, bytes.to_owned().into()).await.unwrap();
    }

    async fn remove(&self, key: &str) {
        let key = Key::from(format!("p/default/run-1/{key}"));
        self.store.as_ref().unwrap().delete(&key).await.unwrap();
    }

    async fn keys(&self) -> BTreeSet<String> {
        use futures_util::TryStreamExt;
        use object_store::ObjectStore;
        let all: Vec<_> = self.store.as_ref().unwrap().list(None).try_collect().await.unwrap();
        let key = |meta: object_store::ObjectMeta| meta.location.to_string().replace("p/default/run-1/", "");
        all.into_iter().map(key).collect()
    }
}

fn keys(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|key| (*key).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_makes_a_checkpoint_and_what_has_none_is_swept() {
    let run = Run::remote(CheckpointOptions::default());
    let opened = run.open();
    opened.begin(0, 2).await;
    opened.hand(shard(0, 0, 10, run.files("half", &[("old", "x")]))).await.unwrap();
    assert!(run.keys().await.contains("checkpoint_000000/old"));
    opened.close(0).await;
    assert_eq!(run.keys().await, keys(&["run.json", "checkpoints.json"]));
    run.put("checkpoint_000004/left", "by one that was killed").await;
    drop(opened);

    let opened = run.open();
    assert_eq!(opened.begin(1, 2).await, Resume::default());
    assert!(!run.keys().await.contains("checkpoint_000004/left"));
    opened.hand(shard(1, 0, 10, run.files("r0", &[("m/0", "zero"), ("s", "x")]))).await.unwrap();
    opened.hand(shard(1, 1, 10, run.files("r1", &[("m/1", "one"), ("s", "y")]))).await.unwrap();
    opened.settled().await;
    let of = |path: &str| format!("checkpoint_000005/{path}");
    let expected: BTreeSet<String> = ["m/0", "m/1", "s", "rank_1/s", MANIFEST].map(of).into();
    let there: BTreeSet<String> =
        run.keys().await.into_iter().filter(|key| key.starts_with("checkpoint_")).collect();
    assert_eq!(there, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_fetched_once_with_its_hashes_checked_and_the_one_before_if_they_are_wrong() {
    let run = Run::remote(CheckpointOptions::default());
    let opened = run.open();
    opened.begin(0, 1).await;
    for step in [1, 2, 3] {
        opened.one(&run, 0, step, 0.0).await;
    }
    drop(opened);
    run.put("checkpoint_000002/weights", "weights of").await;
    run.put("checkpoint_000001/weights", "WEIGHTS of 2").await;
    let opened = run.open();
    let Resume { from, notes, .. } = opened.begin(1, 1).await;
    assert_eq!(
        from.as_ref().map(|u| (u.number, u.path.clone())),
        Some((1, None)),
        "sizes are looked at first"
    );
    assert!(notes[0].starts_with("checkpoint 2 of step 3 is corrupt: weights has 10 bytes in place of 12"));
    let (a, b) = tokio::join!(opened.desk.fetch_latest(), opened.desk.fetch_latest());
    let (a, b) = (a.unwrap().unwrap(), b.unwrap().unwrap());
    assert_eq!(a, b);
    assert_eq!((a.number, a.path.as_deref()), (0, Some(run.at("cache/checkpoint_000000").as_path())));
    assert_eq!(tree(&run.at("cache"))["checkpoint_000000/weights"], "weights of 1");
    assert_eq!(opened.states()[&1], CheckpointState::Corrupt);
    run.remove("checkpoint_000000/weights").await;
    assert!(opened.desk.fetch_latest().await.unwrap().is_some(), "the cache has it");
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_removes_prefixes_and_notes_those_that_are_gone() {
    let run = Run::remote(keep(1));
    let opened = run.open();
    opened.begin(0, 1).await;
    opened.one(&run, 0, 1, 0.9).await;
    opened.one(&run, 0, 2, 0.8).await;
    run.remove("checkpoint_000000/weights").await;
    run.remove(&format!("checkpoint_000000/{MANIFEST}")).await;
    opened.one(&run, 0, 3, 0.7).await;
    opened.one(&run, 0, 4, 0.6).await;
    use CheckpointState::{Committed, Deleted, Missing};
    assert_eq!(opened.states(), [(0, Missing), (1, Committed), (2, Deleted), (3, Committed)].into());
    let there: BTreeSet<_> = run.keys().await.into_iter().filter(|k| k.ends_with(MANIFEST)).collect();
    assert_eq!(there, [1, 3].map(|n| format!("checkpoint_00000{n}/{MANIFEST}")).into());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_file_goes_and_comes_in_parts() {
    let run = Run::remote(CheckpointOptions::default());
    let opened = run.open();
    opened.begin(0, 1).await;
    let text = "0123456789abcdef".repeat(2 << 20);
    let path =
        run.files("large", &[("exact", &text[..16 << 20]), ("more", &text[..(24 << 20) + 5]), ("none", "")]);
    opened.hand(shard(0, 0, 1, path.clone())).await.unwrap();
    opened.settled().await;
    assert_eq!(opened.desk.moving(), None);
    let got = opened.desk.fetch_latest().await.unwrap().unwrap().path.unwrap();
    let mut got = tree(&got);
    got.remove(MANIFEST);
    assert!(got == tree(&path));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_an_object_store_cannot_be_handed_in_where_it_is() {
    let run = Run::remote(CheckpointOptions::default());
    let opened = run.open();
    opened.begin(0, 1).await;
    let mut in_place = shard(0, 0, 1, run.files("x", &[("a", "1")]));
    in_place.handed.upload_mode = UploadMode::NoUpload;
    let refused = opened.hand(in_place).await.unwrap_err();
    assert!(refused.contains("no_upload needs checkpoints in a directory"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_gets_another_storage_uses_no_number_twice() {
    let mut run = Run::local(CheckpointOptions::default());
    for (attempt, expected) in [(0, 0), (1, 1), (2, 2)] {
        let opened = run.open();
        opened.begin(attempt, 1).await;
        opened.one(&run, attempt, 1, 0.0).await;
        assert_eq!(opened.desk.newest().unwrap().number, expected);
        run.store = Some(Arc::new(InMemory::new()));
    }
}
