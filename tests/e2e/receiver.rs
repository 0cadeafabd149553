//! A receiver of webhooks and notes.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, Ordering},
    },
};

use base64::{Engine, prelude::BASE64_STANDARD};
use hmac::{Hmac, Mac};
use serde_json::Value;
use sha2::Sha256;

/// A receiver on a free port, which answers with `status`.
pub(crate) struct Receiver {
    pub(crate) url: String,
    pub(crate) status: Arc<AtomicU16>,
    pub(crate) refused: Arc<AtomicU16>,
    taken: Arc<Mutex<Vec<Delivery>>>,
}

/// One request that was taken.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) body: Value,
    text: String,
    headers: BTreeMap<String, String>,
}

impl Receiver {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/s3cret-path", listener.local_addr().unwrap());
        let receiver = Self {
            url,
            status: Arc::new(AtomicU16::new(200)),
            refused: Arc::default(),
            taken: Arc::default(),
        };
        let (status, taken, refused) =
            (receiver.status.clone(), receiver.taken.clone(), receiver.refused.clone());
        // Ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(delivery) = read(&stream) else { continue };
                let now = status.load(Ordering::SeqCst);
                let answer = format!("HTTP/1.1 {now} x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                if now == 200 {
                    taken.lock().unwrap().push(delivery);
                } else {
                    refused.fetch_add(1, Ordering::SeqCst);
                }
                // Who does not read the answer asks again.
                let _ = (&stream).write_all(answer.as_bytes());
            }
        });
        receiver
    }

    pub(crate) fn taken(&self) -> Vec<Delivery> {
        self.taken.lock().unwrap().clone()
    }

    pub(crate) fn types(&self) -> Vec<String> {
        self.taken().iter().map(|delivery| delivery.body["type"].as_str().unwrap().to_owned()).collect()
    }
}

impl Delivery {
    /// Whether it was signed with this secret, by the specification of Standard Webhooks.
    pub(crate) fn is_signed(&self, secret: &str) -> bool {
        let key = BASE64_STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
        let header = |name: &str| self.headers.get(name).map(String::as_str).unwrap_or_default();
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
        let signed = format!("{}.{}.{}", header("webhook-id"), header("webhook-timestamp"), self.text);
        mac.update(signed.as_bytes());
        header("webhook-signature") == format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
    }
}

fn read(stream: &TcpStream) -> Option<Delivery> {
    let mut reader = BufReader::new(stream);
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(": ") {
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    let mut text = vec![0; headers.get("content-length")?.parse().ok()?];
    reader.read_exact(&mut text).ok()?;
    Some(Delivery { body: serde_json::from_slice(&text).ok()?, text: String::from_utf8(text).ok()?, headers })
}
