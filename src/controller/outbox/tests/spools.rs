//! What is kept on disk for others, what others left there, and whose a spool is.

use super::*;

/// The lines of all segments in a spool, in order.
fn on_disk(dir: &std::path::Path) -> Vec<serde_json::Value> {
    let mut segments: Vec<_> =
        std::fs::read_dir(dir).into_iter().flatten().map(|e| e.unwrap().path()).collect();
    segments.retain(|path| path.extension().is_some_and(|e| e == "jsonl"));
    segments.sort();
    let text = segments.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect::<String>();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn kinds(lines: &[serde_json::Value]) -> Vec<String> {
    let word = |line: &serde_json::Value| match line.get("report") {
        Some(batch) => format!("{} from {}", batch["seq"], batch["columns"]["step"][0]),
        None => line["say"]["body"]["state"].as_str().unwrap_or("begin").to_owned(),
    };
    lines.iter().map(word).collect()
}

fn earlier(run_dir: &std::path::Path, items: &[serde_json::Value]) -> keeper::Keeper {
    let register = RegisterRun::by(crate::base::ActorId::parse("earlier").unwrap());
    let keeper = keeper::Keeper::new(run_dir, &RunId::generate(), None, &register);
    let items: Vec<_> = items.iter().map(|item| serde_json::from_value(item.clone()).unwrap()).collect();
    keeper.append(1, &items).unwrap();
    keeper
}

fn batch(seq: u64, attempt: u32, step: u64) -> serde_json::Value {
    let columns = json!({"step": [step], "metrics": {"loss": [0.5]}});
    json!({"report": {"writer": "earlier", "seq": seq, "attempt": attempt, "columns": columns}})
}

#[tokio::test]
async fn what_the_head_does_not_have_at_the_end_is_kept_in_order_and_with_its_numbers() {
    let place = Place::new(Limits::default(), |_, _| {});
    place.outbox.say(state(ControllerState::Scheduling));
    place.report(0, 0..10);
    assert!(place.outbox.flush(LIMIT).await);
    place.goes_away();
    place.report(0, 10..20);
    place.outbox.say(state(ControllerState::Running));
    place.head.wait_for("try", |seen| seen.asked_in_vain > 1).await;
    drop(place.outbox.begin(attempt()));
    place.report(0, 20..30);
    assert!(!place.outbox.flush(Duration::from_millis(1)).await);
    let kept = place.outbox.keep().await;
    let dir = place.run_dir.path().join("spool");
    assert_eq!(kept, std::slice::from_ref(&dir));
    assert_eq!(kinds(&on_disk(&dir)), ["2 from 10", "RUNNING", "begin", "3 from 20"]);
    let about: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dir.join("spool.json")).unwrap()).unwrap();
    assert_eq!(
        (&about["version"], &about["head"], &about["controller_token"]),
        (&json!(1), &json!(null), &json!("token"))
    );
    assert_eq!(about["register"]["id"], about["run_id"]);
    // Whoever comes next can have it.
    assert!(matches!(spool::Spool::open(&dir).unwrap(), spool::Found::Here(..)));
    place.end().await;
}

#[tokio::test]
async fn while_the_head_is_away_all_is_on_disk_soon_and_arrives_once_and_in_order() {
    let place = Place::new(Limits::default(), |_, _| {});
    place.outbox.say(state(ControllerState::Scheduling));
    assert!(place.outbox.flush(LIMIT).await);
    place.goes_away();
    let dir = place.run_dir.path().join("spool");
    for round in 0..3 {
        place.report(0, round * 10..round * 10 + 10);
        place.outbox.say(RunVerb::BeginAttempt(attempt()));
        let all = async {
            while on_disk(&dir).len() < usize::try_from(round + 1).unwrap() * 2 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LIMIT, all).await.expect("it goes to disk, with what is under way");
        assert!(matches!(spool::Spool::open(&dir).unwrap(), spool::Found::Written), "its writer lives");
    }
    assert_eq!(kinds(&on_disk(&dir)), ["1 from 0", "begin", "2 from 10", "begin", "3 from 20", "begin"]);
    place.comes_back();
    assert!(place.outbox.flush(LIMIT).await);
    assert_eq!(place.steps(0), (0..30).collect::<Vec<_>>());
    assert!(!dir.exists());
    place.end().await;
}

#[tokio::test]
async fn the_metrics_of_an_earlier_controller_are_delivered_and_its_verbs_are_not() {
    let verb = json!({"say": {"verb": "set_state", "body": {"state": "RUNNING"}}});
    let place = Place::new(small(), |run_dir, head| {
        let items = [batch(1, 0, 7), verb, batch(2, 2, 8), batch(3, 3, 9)];
        let dir = earlier(run_dir.path(), &items).leave().unwrap();
        let mut segment =
            std::fs::OpenOptions::new().append(true).open(dir.join("000000000001.jsonl")).unwrap();
        std::io::Write::write_all(&mut segment, b"{\"report\": {\"writer\": \"ear").unwrap();
        head.set(|seen| seen.away = true);
    });
    // What this one cannot say meanwhile has a place of its own.
    for step in 0..50 {
        place.report(1, step..step + 1);
        place.outbox.say(RunVerb::BeginAttempt(attempt()));
    }
    let own = async {
        while inherit::spools_of_run(place.run_dir.path()).len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, own).await.unwrap();
    place.comes_back();
    assert!(place.outbox.flush(LIMIT).await, "both");
    // Of its attempts the head knows three.
    assert_eq!(place.steps(0), [7, 8]);
    assert_eq!(place.steps(1), (0..50).collect::<Vec<_>>());
    assert!(inherit::spools_of_run(place.run_dir.path()).is_empty());
    place.end().await;
}

#[tokio::test]
async fn what_an_earlier_controller_left_stays_where_the_head_does_not_come_back() {
    let place = Place::new(Limits::default(), |run_dir, head| {
        drop(earlier(run_dir.path(), &[batch(1, 0, 7)]).leave());
        head.set(|seen| seen.away = true);
    });
    place.head.wait_for("try", |seen| seen.asked_in_vain > 0).await;
    place.outbox.say(state(ControllerState::Scheduling));
    assert!(!place.outbox.flush(Duration::from_millis(1)).await);
    let mut kept = place.outbox.keep().await;
    kept.sort();
    assert_eq!(kept, inherit::spools_of_run(place.run_dir.path()));
    assert_eq!(kept.len(), 2);
    assert_eq!(kinds(&on_disk(&place.run_dir.path().join("spool"))), ["1 from 7"]);
    place.end().await;
}

#[tokio::test]
async fn a_spool_belongs_to_who_holds_its_lock() {
    let dir = TempDir::new().unwrap();
    let keeper = earlier(dir.path(), &[batch(1, 0, 7)]);
    let at = dir.path().join("spool");
    assert!(matches!(spool::Spool::open(&at).unwrap(), spool::Found::Written));
    let another = earlier(dir.path(), &[batch(1, 0, 8)]);
    assert_eq!(another.leave(), Some(dir.path().join("spool-earlier")));
    keeper.leave();
    let spool::Found::Here(held, about) = spool::Spool::open(&at).unwrap() else { panic!() };
    assert_eq!(about.register.controller.actor_id.as_str(), "earlier");
    assert!(matches!(spool::Spool::open(&at).unwrap(), spool::Found::Delivered));
    held.remove();
    assert!(matches!(spool::Spool::open(&at).unwrap(), spool::Found::Nothing));
    assert!(!at.exists());
    std::fs::write(dir.path().join("spool-earlier/spool.json"), "{\"version\": 2").unwrap();
    assert!(spool::Spool::open(&dir.path().join("spool-earlier")).is_err());
}
