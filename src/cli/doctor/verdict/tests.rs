//! Facts at and around each threshold.

use super::*;
use crate::state::StoreContents;
use Status::{Ok as Good, Problem, Warning};

const GIB: u64 = 1 << 30;

fn statuses(findings: &[Finding]) -> Vec<Status> {
    for finding in findings {
        // Whatever is not as it should be comes with what to do.
        assert!(finding.status == Good || finding.advice.is_some(), "{finding:?}");
    }
    findings.iter().map(|f| f.status).collect()
}

#[test]
fn a_directory_is_judged_by_its_rights_and_what_it_lies_on() {
    let good = Directory { is_dir: true, writable: true, owner: 7, user: 7, mode: 0o700, magic: 0xef53 };
    let with = |change: fn(&mut Directory)| {
        let mut facts = good.clone();
        change(&mut facts);
        statuses(&directory(Path::new("/d"), Some(&facts)))
    };
    assert_eq!(with(|_| ()), [Good, Good, Good]);
    assert_eq!(with(|d| d.mode = 0o750), [Good, Good, Good]);
    assert_eq!(with(|d| d.mode = 0o755), [Good, Warning, Good]);
    assert_eq!(with(|d| d.mode = 0o704), [Good, Warning, Good]);
    assert_eq!(with(|d| d.owner = 8), [Warning, Good, Good]);
    assert_eq!(with(|d| d.writable = false), [Problem, Good, Good]);
    assert_eq!(with(|d| d.magic = 0x6969), [Good, Good, Problem]);
    assert_eq!(with(|d| d.magic = 0xff53_4d42), [Good, Good, Problem]);
    assert_eq!(with(|d| d.magic = 0x6573_5546), [Good, Good, Warning]);
    assert_eq!(with(|d| d.magic = TMPFS), [Good, Good, Warning]);
    assert_eq!(with(|d| d.is_dir = false), [Problem]);
    assert_eq!(statuses(&directory(Path::new("/d"), None)), [Warning]);
}

#[test]
fn space_is_judged_by_what_is_left() {
    let bytes = |free, total| {
        let facts = Space { free_bytes: free, total_bytes: total, free_inodes: 0, total_inodes: 0 };
        statuses(&space(&facts))
    };
    assert_eq!(bytes(50 * GIB, 100 * GIB), [Good]);
    assert_eq!(bytes(4 * GIB, 100 * GIB), [Warning], "less than 5 %");
    assert_eq!(bytes(GIB - 1, 2 * GIB), [Warning], "less than 1 GiB");
    assert_eq!(bytes(GIB, 2 * GIB), [Good]);
    assert_eq!(bytes(100 * MIB, GIB), [Warning]);
    assert_eq!(bytes(100 * MIB - 1, GIB), [Problem]);
    let inodes = |free, total| {
        let facts = Space { free_bytes: GIB, total_bytes: GIB, free_inodes: free, total_inodes: total };
        statuses(&space(&facts))[1]
    };
    assert_eq!(inodes(50_000, 1_000_000), Good);
    assert_eq!(inodes(49_999, 1_000_000), Warning);
    assert_eq!(inodes(99, 1_000_000), Problem);
}

#[test]
fn a_store_is_judged_by_its_file_its_version_and_its_records() {
    let sound = StoreReport { version: 3, known_version: 3, ..StoreReport::default() };
    let of = |report: StoreReport| statuses(&store(Depth::Quick, &Ok(report)));
    let contents = |change: fn(&mut StoreContents)| {
        let mut contents = StoreContents { runs: 9, ..StoreContents::default() };
        change(&mut contents);
        of(StoreReport { contents: Some(contents), ..sound.clone() })
    };
    assert_eq!(contents(|_| ()), [Good, Good, Good, Good]);
    assert_eq!(contents(|c| c.faulty_runs = 1), [Good, Good, Problem, Good]);
    assert_eq!(contents(|c| c.unknown_dirs = 5), [Good, Good, Good, Good], "only a note");
    assert_eq!(of(StoreReport { faults: vec!["page 7".into()], ..sound.clone() }), [Problem, Good]);
    assert_eq!(of(StoreReport { version: 2, ..sound.clone() }), [Good, Warning]);
    let newer = store(Depth::Full, &Ok(StoreReport { version: 999, ..sound }));
    assert_eq!(statuses(&newer), [Good, Problem]);
    assert!(newer[1].found.contains("999") && newer[1].found.contains('3'), "{newer:?}");
    let unreadable = Err(StateError::Unavailable("the disk".into()));
    assert_eq!(statuses(&store(Depth::Quick, &unreadable)), [Problem]);
}

#[test]
fn many_faulty_runs_are_named_and_said_to_be_more() {
    let faults = vec!["r1: bad".to_owned(), "r2: bad".to_owned()];
    let contents = StoreContents { runs: 9, faulty_runs: 3, faults, ..StoreContents::default() };
    let report = StoreReport { version: 3, known_version: 3, faults: vec![], contents: Some(contents) };
    let findings = store(Depth::Quick, &Ok(report));
    assert_eq!(findings[2].found, "3 of 9 runs are faulty: r1: bad; r2: bad; …");
}

#[test]
fn a_head_is_judged_by_what_it_says() {
    let ready =
        HeadReadiness { problem: None, last_sweep_age_ms: 900, store_failures: 0, version: "1.0.0".into() };
    let of = |answer: Result<HeadReadiness, ClientError>| {
        statuses(&head(true, Some(("http://h", &answer)), "1.0.0"))
    };
    assert_eq!(of(Ok(ready.clone())), [Good, Good]);
    assert_eq!(of(Ok(HeadReadiness { version: "0.9.0".into(), ..ready.clone() })), [Good, Warning]);
    assert_eq!(of(Ok(HeadReadiness { store_failures: 1, ..ready.clone() })), [Warning, Good]);
    assert_eq!(of(Ok(HeadReadiness { last_sweep_age_ms: 10_001, ..ready.clone() })), [Problem, Good]);
    assert_eq!(of(Ok(HeadReadiness { problem: Some("full".into()), ..ready })), [Problem, Good]);
    assert_eq!(of(Err(ClientError::Unreachable("refused".into()))), [Problem]);
    assert_eq!(statuses(&head(false, None, "1.0.0")), [Good]);
    assert_eq!(statuses(&head(true, None, "1.0.0")), [Warning]);
}

#[test]
fn a_port_is_a_problem_of_others_only() {
    let of = |listener: Listener| statuses(&[port(8420, &listener)])[0];
    assert_eq!([of(Listener::Nobody), of(Listener::Ours)], [Good, Good]);
    assert_eq!([of(Listener::AnotherHead), of(Listener::Stranger)], [Warning, Warning]);
    assert_eq!(of(Listener::Forbidden("no".into())), Warning);
}

#[test]
fn a_clock_is_after_the_build_and_the_newest_event() {
    let at = |ms: i64| Timestamp::from_ms(1_800_000_000_000 + ms);
    let of =
        |built: Option<i64>, event: Option<i64>| statuses(&[clock(at(0), built.map(at), event.map(at))])[0];
    assert_eq!(of(None, None), Good);
    assert_eq!(of(Some(-1), Some(-1)), Good);
    assert_eq!(of(Some(60_000), Some(60_000)), Good, "clocks of hosts differ a little");
    assert_eq!(of(None, Some(60_001)), Warning);
    assert_eq!(of(Some(60_001), None), Problem);
}

#[test]
fn limits_are_judged_by_the_live_runs() {
    let of = |soft, live| statuses(&[open_files(OpenFiles { soft, hard: 1 << 20 }, live, None)])[0];
    assert_eq!([of(1024, 0), of(1024, 384)], [Good, Good]);
    assert_eq!([of(1024, 385), of(1024, 960)], [Warning, Warning]);
    assert_eq!([of(1024, 961), of(u64::MAX, u64::MAX)], [Problem, Good]);
    let watches = |watches, instances| statuses(&[inotify(Some(Inotify { watches, instances }))])[0];
    assert_eq!([watches(8192, 128), watches(1023, 128), watches(8192, 127)], [Good, Warning, Warning]);
    assert_eq!(statuses(&[inotify(None)]), [Warning]);
}

#[test]
fn a_kernel_must_have_what_nothing_works_without() {
    let full =
        Kernel { release: "6.1".into(), pidfd_open: true, openat2: true, subreaper: true, cgroup: None };
    assert_eq!(statuses(&kernel(&full)), [Good; 4]);
    let old = Kernel { pidfd_open: false, openat2: false, ..full };
    assert_eq!(statuses(&kernel(&old)), [Problem, Problem, Good, Good]);
}
