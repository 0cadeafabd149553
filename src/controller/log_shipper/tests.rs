//! Log shipping to a head that comes and goes.

use std::{fs::File, io::Write};

use rustix::fs::{FallocateFlags, fallocate};
use tempfile::TempDir;

use super::*;
use crate::controller::fake_head::{FakeHead, LIMIT};

struct Place {
    head: Arc<FakeHead>,
    shipper: LogShipper,
    tasks: Tasks,
    dir: DataDir,
    run: RunId,
    _temp: TempDir,
}

impl Place {
    fn new() -> Self {
        let (head, tasks, temp) = (FakeHead::new(), Tasks::new(), TempDir::new().unwrap());
        let (dir, run) = (DataDir::open(temp.path()).unwrap(), RunId::generate());
        let (_, token) = watch::channel(Some(Secret::new("token".into())));
        let client = Arc::clone(&head);
        let shipper = LogShipper::start(client, run.clone(), dir.clone(), token, &tasks);
        Self { head, shipper, tasks, dir, run, _temp: temp }
    }

    fn log(&self, attempt: u32, rank: u32) -> File {
        let path = self.dir.root().join(DataDir::log(&self.run, attempt, rank));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        File::options().create(true).append(true).open(path).unwrap()
    }

    fn sent(&self, attempt: u32, rank: u32) -> Vec<u8> {
        self.head.set(|seen| seen.logs.get(&(attempt, rank)).cloned().unwrap_or_default())
    }

    async fn finish(self) -> (Arc<FakeHead>, bool) {
        let sent = self.shipper.finish(LIMIT).await;
        assert!(self.tasks.shutdown("the test", LIMIT).await);
        (self.head, sent)
    }
}

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|i| u8::try_from(i * i % 251).unwrap()).collect()
}

#[tokio::test]
async fn logs_are_the_same_bytes_after_the_head_was_away_and_lost_its_answers() {
    let place = Place::new();
    place.head.set(|seen| seen.loses = Some(3));
    place.shipper.attempt(0, 2);
    let (mut zero, mut one) = (place.log(0, 0), place.log(0, 1));
    zero.write_all(b"before\n").unwrap();
    place
        .head
        .wait_for("first line", |seen| seen.logs.get(&(0, 0)).is_some_and(|log| log == b"before\n"))
        .await;
    place.head.set(|seen| seen.away = true);
    let long = bytes(3 * PART + 17);
    zero.write_all(&long).unwrap();
    one.write_all(b"\xff\x00other\n").unwrap();
    place.shipper.attempt(1, 1);
    place.log(1, 0).write_all(b"second attempt").unwrap();
    place.head.wait_for("try", |seen| seen.asked_in_vain > 1).await;
    place.head.set(|seen| seen.away = false);
    let (head, sent) = place.finish().await;
    assert!(sent);
    head.set(|seen| {
        assert!(seen.logs[&(0, 0)] == [b"before\n", &long[..]].concat());
        assert_eq!(seen.logs[&(0, 1)], b"\xff\x00other\n");
        assert_eq!(seen.logs[&(1, 0)], b"second attempt");
    });
}

#[tokio::test]
async fn a_head_that_lost_bytes_gets_them_again() {
    let place = Place::new();
    place.shipper.attempt(0, 1);
    let mut log = place.log(0, 0);
    log.write_all(b"0123456789").unwrap();
    place.head.wait_for("log", |seen| seen.logs.get(&(0, 0)).is_some_and(|log| log.len() == 10)).await;
    // A head that was set up again from a copy.
    place.head.set(|seen| seen.logs.get_mut(&(0, 0)).unwrap().truncate(4));
    log.write_all(b"abc").unwrap();
    let (head, sent) = place.finish().await;
    assert!(sent);
    head.set(|seen| assert_eq!(seen.logs[&(0, 0)], b"0123456789abc"));
}

#[tokio::test]
async fn a_log_waits_until_the_head_knows_its_attempt() {
    let place = Place::new();
    place.head.set(|seen| seen.knows_no_attempt = true);
    place.shipper.attempt(0, 1);
    place.log(0, 0).write_all(b"early").unwrap();
    place.head.wait_for("try", |seen| seen.asked_in_vain > 0).await;
    assert_eq!(place.sent(0, 0), b"");
    place.head.set(|seen| seen.knows_no_attempt = false);
    let (head, sent) = place.finish().await;
    assert!(sent);
    head.set(|seen| assert_eq!(seen.logs[&(0, 0)], b"early"));
}

#[tokio::test]
async fn a_head_that_stays_away_costs_no_more_than_the_limit() {
    let place = Place::new();
    place.head.set(|seen| seen.away = true);
    place.shipper.attempt(0, 1);
    place.log(0, 0).write_all(b"x").unwrap();
    assert!(!place.shipper.finish(Duration::from_millis(50)).await);
    assert!(place.tasks.shutdown("the test", LIMIT).await);
}

#[tokio::test]
async fn what_was_cut_out_of_a_log_is_not_sent() {
    let place = Place::new();
    let mut log = place.log(0, 0);
    let all = bytes(4 * PART);
    log.write_all(&all).unwrap();
    let (from, len) = (PART / 2, 2 * PART);
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let path = place.dir.root().join(DataDir::log(&place.run, 0, 0));
    let writable = File::options().write(true).open(path).unwrap();
    let punched = fallocate(&writable, punch, from.try_into().unwrap(), len.try_into().unwrap());
    place.shipper.attempt(0, 1);
    let (head, sent) = place.finish().await;
    assert!(sent);
    if punched.is_ok() {
        let kept = [&all[..from], &all[from + len..]].concat();
        head.set(|seen| assert!(seen.logs[&(0, 0)] == kept));
    }
}
