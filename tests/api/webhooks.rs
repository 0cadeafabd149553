//! Webhooks, to a real receiver on a port of this machine: in order, signed, at least once, and given up in the end.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, Mac};
use serde_json::{Value, json};
use tokio::sync::watch;
use trainhead::{
    base::Tasks,
    head::webhooks::{WebhookOptions, start},
    model::EventKind,
};

use crate::harness::Head;

const DEADLINE: Duration = Duration::from_secs(30);
const KEY: &[u8] = b"a key that nobody else knows";

/// Takes what is told, and answers as it is told to.
struct Receiver {
    url: String,
    got: watch::Receiver<Vec<Message>>,
    answers: Arc<watch::Sender<Vec<u16>>>,
    tasks: Tasks,
}

#[derive(Clone, Debug)]
struct Message {
    headers: HeaderMap,
    text: String,
    body: Value,
    answer: u16,
}

#[derive(Clone)]
struct Behaviour {
    got: Arc<watch::Sender<Vec<Message>>>,
    /// The next answers; the last of them is repeated.
    answers: Arc<watch::Sender<Vec<u16>>>,
}

impl Receiver {
    async fn new() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://user:pw@{}/hook?key=s3cret", listener.local_addr().unwrap());
        let (sender, got) = watch::channel(Vec::new());
        let answers = Arc::new(watch::Sender::new(vec![200]));
        let behaviour = Behaviour { got: Arc::new(sender), answers: Arc::clone(&answers) };
        let router = Router::new().fallback(take).with_state(behaviour);
        let tasks = Tasks::new();
        let stop = tasks.stopping();
        drop(tasks.spawn(async move {
            let stopped = async move { stop.cancelled().await };
            axum::serve(listener, router).with_graceful_shutdown(stopped).await.unwrap();
        }));
        Self { url, got, answers, tasks }
    }

    /// The next answers; the last is repeated.
    fn answer(&self, answers: &[u16]) {
        self.answers.send_replace(answers.to_vec());
    }

    /// All that came, once it fits.
    async fn until(&mut self, what: &str, fits: impl FnMut(&Vec<Message>) -> bool) -> Vec<Message> {
        if let Ok(got) = tokio::time::timeout(DEADLINE, self.got.wait_for(fits)).await {
            return got.unwrap().clone();
        }
        panic!("not within {DEADLINE:?}: {what}; came: {:?}", types(&self.got.borrow()));
    }

    /// All that was taken, once there is as much of it.
    async fn taken(&mut self, n: usize) -> Vec<Message> {
        let all = self.until("messages", |got| got.iter().filter(|m| m.answer == 200).count() >= n).await;
        all.into_iter().filter(|m| m.answer == 200).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.tasks.stop();
    }
}

async fn take(
    State(behaviour): State<Behaviour>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, &'static str) {
    let mut answer = 0;
    behaviour.answers.send_modify(|answers| {
        answer = if answers.len() > 1 { answers.remove(0) } else { answers[0] };
    });
    let text = String::from_utf8(body.to_vec()).unwrap();
    let body = serde_json::from_str(&text).unwrap();
    behaviour.got.send_modify(|got| got.push(Message { headers, text, body, answer }));
    (StatusCode::from_u16(answer).unwrap(), "no, by Bearer abcdefgh12345678")
}

fn types(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|m| m.body["type"].as_str().unwrap()).collect()
}

/// A header of a message.
fn header<'a>(message: &'a Message, name: &str) -> &'a str {
    message.headers.get(name).map_or("", |value| value.to_str().unwrap())
}

/// The receiver's own computation of the signature.
fn assert_signed(message: &Message) {
    let (id, timestamp) = (header(message, "webhook-id"), header(message, "webhook-timestamp"));
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(KEY).unwrap();
    mac.update(format!("{id}.{timestamp}.{}", message.text).as_bytes());
    let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    assert_eq!(header(message, "webhook-signature"), expected);
    assert_eq!(timestamp, (crate::harness::START / 1000).to_string());
}

async fn deliver(head: &Head, receiver: &Receiver, give_up: Duration, kinds: &[EventKind]) -> Tasks {
    let options = WebhookOptions {
        urls: vec![receiver.url.parse().unwrap()],
        secret: Some(format!("whsec_{}", STANDARD.encode(KEY)).parse().unwrap()),
        kinds: kinds.to_vec(),
        give_up,
        server: Some("http://127.0.0.1:8420".into()),
    };
    let tasks = Tasks::new();
    start(&head.state, options, &tasks).await.unwrap();
    tasks
}

async fn stop(tasks: Tasks) {
    assert!(tasks.shutdown("the webhooks", Duration::from_secs(10)).await);
}

/// What the head shows of its one webhook, once it fits.
async fn shown(head: &Head, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let look = async {
        loop {
            let ready = head.get("/readyz").await;
            assert_eq!(ready.status, StatusCode::OK, "a failing webhook does not make the head unready");
            let hook = ready.body["webhooks"][0].clone();
            if fits(&hook) {
                return hook;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(DEADLINE, look).await.unwrap_or_else(|_| panic!("not within {DEADLINE:?}: {what}"))
}

#[tokio::test]
async fn a_runs_life_is_told_in_order_and_signed_from_the_hooks_first_start_on() {
    let head = Head::new().await;
    head.running("before", 1).await;
    let mut receiver = Receiver::new().await;
    let tasks = deliver(&head, &receiver, DEADLINE, &[EventKind::Run]).await;
    let run = head.running("r", 1).await;
    head.say(&run, "end", json!({"run_status": "FINISHED"})).await;
    let told = receiver.taken(4).await;
    assert_eq!(types(&told), ["run.initializing", "run.scheduling", "run.running", "run.finished"]);
    for message in &told {
        assert_signed(message);
        assert_eq!(message.body["event"]["run_id"], "r");
        assert_eq!(message.body["event"]["id"], message.body["id"]);
        assert_eq!(message.body["server"], "http://127.0.0.1:8420");
        assert_eq!(header(message, "content-type"), "application/json");
    }
    let mut finished = head.get("/api/train/runs?q=r").await.body["train_runs"].clone();
    let finished = finished.as_array_mut().unwrap().iter().find(|r| r["id"] == "r").unwrap().clone();
    assert_eq!(told[3].body["run"], finished);
    let ids: std::collections::BTreeSet<&str> = told.iter().map(|m| header(m, "webhook-id")).collect();
    assert_eq!(ids.len(), 4);
    let hook = shown(&head, "all is delivered", |hook| hook["lag"] == 0).await;
    let host = receiver.url.split(['@', '/']).nth(3).unwrap();
    assert_eq!(hook["host"], host);
    assert_eq!((&hook["dead_letters"], &hook["last_error"]), (&json!(0), &Value::Null));
    assert!(!hook.to_string().contains("s3cret") && !hook.to_string().contains("pw"), "{hook}");
    stop(tasks).await;
}

#[tokio::test]
async fn all_kinds_have_a_type_that_can_be_routed_by() {
    let head = Head::new().await;
    let mut receiver = Receiver::new().await;
    let tasks = deliver(&head, &receiver, DEADLINE, EventKind::ALL).await;
    head.running("r", 1).await;
    head.post("/api/train/runs/r/stop", None, json!({})).await;
    let body = json!({"id": "r", "controller": {"actor_id": "new"}, "takeover": true});
    head.post("/api/train/runs", None, body).await;
    let told = receiver.until("the takeover", |got| types(got).contains(&"controller.changed")).await;
    let told = types(&told);
    for expected in ["run.running", "attempt.pending", "attempt.running", "stop.requested", "worker.dead"] {
        assert!(told.contains(&expected), "{expected} in {told:?}");
    }
    stop(tasks).await;
}

#[tokio::test]
async fn what_is_not_taken_is_told_again() {
    let head = Head::new().await;
    let mut receiver = Receiver::new().await;
    receiver.answer(&[503, 503, 200]);
    let tasks = deliver(&head, &receiver, DEADLINE, &[EventKind::Run]).await;
    head.register(json!({"id": "r", "controller": {"actor_id": "c"}})).await;
    let hook = shown(&head, "the failure", |hook| hook["last_error"].is_string()).await;
    assert_eq!(hook["last_error"], "status 503: no, by Bearer ***");
    receiver.taken(1).await;
    let all = receiver.got.borrow().clone();
    assert_eq!(types(&all), ["run.initializing"; 3]);
    assert!(all.iter().all(|m| m.text == all[0].text));
    assert!(all.iter().all(|m| header(m, "webhook-id") == header(&all[0], "webhook-id")));
    all.iter().for_each(assert_signed);
    shown(&head, "no error any more", |hook| hook["last_error"].is_null() && hook["dead_letters"] == 0).await;
    stop(tasks).await;
}

#[tokio::test]
async fn a_dead_receiver_costs_each_event_its_time_once_and_what_follows_is_told() {
    let head = Head::new().await;
    let mut receiver = Receiver::new().await;
    receiver.answer(&[503]);
    let tasks = deliver(&head, &receiver, Duration::from_millis(700), &[EventKind::Run]).await;
    let run = head.running("r", 1).await;
    let hook = shown(&head, "three are given up", |hook| hook["dead_letters"] == 3).await;
    assert!(hook["last_error"].as_str().unwrap().starts_with("status 503"), "{hook}");
    // What nobody wants is given up at once.
    receiver.answer(&[410]);
    head.register(json!({"id": "gone", "controller": {"actor_id": "c"}})).await;
    shown(&head, "a fourth is given up", |hook| hook["dead_letters"] == 4).await;
    receiver.answer(&[200]);
    head.say(&run, "end", json!({"run_status": "FINISHED"})).await;
    assert_eq!(types(&receiver.taken(1).await), ["run.finished"]);
    stop(tasks).await;
    // The count outlives the head.
    let head = head.restart().await;
    let tasks = deliver(&head, &receiver, DEADLINE, &[EventKind::Run]).await;
    assert_eq!(head.get("/readyz").await.body["webhooks"][0]["dead_letters"], 4);
    stop(tasks).await;
}

#[tokio::test]
async fn a_restart_of_the_head_loses_nothing_and_tells_nothing_twice_after_an_orderly_end() {
    let head = Head::new().await;
    let mut receiver = Receiver::new().await;
    let tasks = deliver(&head, &receiver, DEADLINE, &[EventKind::Run]).await;
    let run = head.register(json!({"id": "r", "controller": {"actor_id": "c"}})).await;
    receiver.taken(1).await;
    receiver.answer(&[503]);
    head.attempt(&run, "r-a0", 1).await;
    receiver.until("a refusal", |got| got.iter().any(|m| m.answer == 503)).await;
    stop(tasks).await;
    // This happens while nobody delivers.
    let head = head.restart().await;
    head.say(&run, "end", json!({"run_status": "FINISHED"})).await;
    let head = head.restart().await;
    receiver.answer(&[200]);
    let tasks = deliver(&head, &receiver, DEADLINE, &[EventKind::Run]).await;
    let told = receiver.taken(4).await;
    assert_eq!(types(&told), ["run.initializing", "run.scheduling", "run.running", "run.finished"]);
    stop(tasks).await;
}

#[tokio::test]
async fn what_waits_at_an_orderly_end_is_told_before_it() {
    let head = Head::new().await;
    let mut receiver = Receiver::new().await;
    receiver.answer(&[503]);
    let tasks = deliver(&head, &receiver, DEADLINE, &[EventKind::Run]).await;
    head.running("r", 1).await;
    receiver.until("a refusal", |got| !got.is_empty()).await;
    receiver.answer(&[200]);
    stop(tasks).await;
    assert_eq!(types(&receiver.taken(3).await), ["run.initializing", "run.scheduling", "run.running"]);
}
