//! The state of a head elsewhere, over its HTTP API.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use reqwest::{Client, Method, Response, StatusCode, header::CONTENT_TYPE};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{ClientError, StateClient};
use crate::{
    base::{RunId, Secret, error::chain, http},
    model::{
        NumFailures,
        commands::{Heartbeat, HeartbeatAnswer, Heartbeats, RegisterRun, Registration},
        metrics::{ReportBatch, Stored},
        verbs::{BeginAttempt, Begun, RunVerb},
    },
};

/// No request of a controller waits longer.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);

/// A head's HTTP API.
#[derive(Clone, Debug)]
pub struct HttpState {
    http: Client,
    /// Address without a slash at its end.
    base: String,
}

/// What a head says of its own health.
#[derive(Clone, Debug, Deserialize)]
pub struct HeadReadiness {
    /// What is wrong; nothing if it is ready.
    pub problem: Option<String>,
    /// Age of its last good sweep, ms.
    pub last_sweep_age_ms: i64,
    /// Commits that failed since its start.
    pub store_failures: i64,
    /// Its version.
    pub version: String,
}

#[derive(Deserialize)]
struct Problem {
    r#type: String,
    detail: String,
}

#[derive(Deserialize)]
struct Registered {
    run: RegisteredRun,
    controller_token: Secret,
    epoch: u32,
}

#[derive(Deserialize)]
struct RegisteredRun {
    id: RunId,
    name: String,
    num_attempts: u32,
    num_failures: NumFailures,
}

#[derive(Deserialize)]
struct HeartbeatAnswers {
    runs: Vec<HeartbeatAnswer>,
}

impl HttpState {
    /// Talks to the head at `url`.
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn new(url: &str) -> Result<Self, ClientError> {
        let http =
            http::client(url, REQUEST_LIMIT).build().map_err(|e| ClientError::Unreachable(chain(&e)))?;
        Ok(Self { http, base: url.trim_end_matches('/').to_owned() })
    }

    /// The head's address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.base
    }

    /// Whether a head answers there.
    ///
    /// # Errors
    /// When none does.
    pub async fn check(&self) -> Result<(), ClientError> {
        let url = format!("{}/healthz", self.base);
        let response = self.http.get(url).send().await.map_err(|e| ClientError::Unreachable(chain(&e)))?;
        Self::accepted(response).await.map(drop)
    }

    /// Whether a head can do its work; it says so also when it cannot.
    ///
    /// # Errors
    /// When none answers there.
    pub async fn readiness(&self) -> Result<HeadReadiness, ClientError> {
        let url = format!("{}/readyz", self.base);
        let unreachable = |e: reqwest::Error| ClientError::Unreachable(chain(&e));
        let response = self.http.get(url).send().await.map_err(unreachable)?;
        let status = response.status();
        if status.is_success() || status == StatusCode::SERVICE_UNAVAILABLE {
            return response.json().await.map_err(unreachable);
        }
        Err(ClientError::Unreachable(format!("{status} from something that is not a TrainHead")))
    }

    /// An answer as JSON, for the commands that show things.
    ///
    /// # Errors
    /// When the head cannot be reached or refuses.
    pub async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<T, ClientError> {
        self.get_raw(path, query).await?.json().await.map_err(|e| ClientError::Unreachable(chain(&e)))
    }

    /// An answer as it comes, without a limit on its time: for logs that are followed.
    ///
    /// # Errors
    /// When the head cannot be reached or refuses.
    pub async fn get_raw(&self, path: &str, query: &[(&str, String)]) -> Result<Response, ClientError> {
        // reqwest's own query support would bring a second form encoder.
        let query = serde_html_form::to_string(query).unwrap_or_default();
        let url = format!("{}{path}?{query}", self.base);
        let request = self.http.get(url).timeout(Duration::from_secs(7 * 24 * 3600));
        let response = request.send().await.map_err(|e| ClientError::Unreachable(chain(&e)))?;
        Self::accepted(response).await
    }

    /// Sends a body and reads an answer.
    ///
    /// # Errors
    /// When the head cannot be reached or refuses.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        token: Option<&Secret>,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.post_within(REQUEST_LIMIT, path, token, body).await
    }

    /// The same for what may take longer.
    ///
    /// # Errors
    /// When the head cannot be reached or refuses.
    pub async fn post_within<T: DeserializeOwned>(
        &self,
        limit: Duration,
        path: &str,
        token: Option<&Secret>,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.write(Method::POST, limit, path, token, body).await
    }

    /// Puts a body in its place.
    async fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        token: Option<&Secret>,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.write(Method::PUT, REQUEST_LIMIT, path, token, body).await
    }

    /// Sets what needs no words.
    ///
    /// # Errors
    /// When the head cannot be reached or refuses.
    pub async fn put_empty<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.put(path, None, &serde_json::Map::new()).await
    }

    /// Takes away.
    ///
    /// # Errors
    /// When the head cannot be reached or refuses.
    pub async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.write(Method::DELETE, REQUEST_LIMIT, path, None, &serde_json::Map::new()).await
    }

    async fn write<T: DeserializeOwned>(
        &self,
        method: Method,
        limit: Duration,
        path: &str,
        token: Option<&Secret>,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let url = format!("{}{path}", self.base);
        let mut request = self.http.request(method, url).timeout(limit).json(body);
        if let Some(token) = token {
            request = request.bearer_auth(token.expose());
        }
        let response = request.send().await.map_err(|e| ClientError::Unreachable(chain(&e)))?;
        Self::accepted(response).await?.json().await.map_err(|e| ClientError::Unreachable(chain(&e)))
    }

    async fn accepted(response: Response) -> Result<Response, ClientError> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let again = status.is_server_error()
            || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
        match response.json::<Problem>().await {
            Ok(problem) if !again => Err(ClientError::Refused {
                slug: problem.r#type.trim_start_matches("/problems/").to_owned(),
                detail: problem.detail,
            }),
            Ok(problem) => Err(ClientError::Unreachable(format!("{status}: {}", problem.detail))),
            // Not one of our problems: something else answers at this address.
            Err(_) => {
                Err(ClientError::Unreachable(format!("{status} from something that is not a TrainHead")))
            }
        }
    }
}

#[async_trait]
impl StateClient for HttpState {
    fn address(&self) -> Option<String> {
        Some(self.base.clone())
    }

    async fn register(&self, body: RegisterRun) -> Result<Registration, ClientError> {
        let Registered { run, controller_token, epoch } = self.post("/api/train/runs", None, &body).await?;
        Ok(Registration {
            run_id: run.id,
            name: run.name,
            token: controller_token,
            epoch,
            created: true,
            num_attempts: run.num_attempts,
            num_failures: run.num_failures,
        })
    }

    async fn say(&self, run: &RunId, token: &Secret, verb: RunVerb) -> Result<(), ClientError> {
        let at = |rest: &str| format!("/api/train/runs/{run}/{rest}");
        let token = Some(token);
        let _: serde_json::Value = match verb {
            RunVerb::SetState(body) => self.post(&at("state"), token, &body).await,
            RunVerb::BeginAttempt(body) => self.post(&at("attempts"), token, &body).await,
            RunVerb::AttemptRunning(id, body) => {
                self.post(&at(&format!("attempts/{id}/running")), token, &body).await
            }
            RunVerb::ChangeWorkers(id, body) => {
                self.post(&at(&format!("attempts/{id}/workers")), token, &body).await
            }
            RunVerb::EndAttempt(id, body) => {
                self.post(&at(&format!("attempts/{id}/end")), token, &body).await
            }
            RunVerb::RecordCheckpoint(number, body) => {
                self.put(&at(&format!("checkpoints/{number}")), token, &body).await
            }
            RunVerb::End(body) => self.post(&at("end"), token, &body).await,
        }?;
        Ok(())
    }

    async fn begin_attempt(
        &self,
        run: &RunId,
        token: &Secret,
        body: BeginAttempt,
    ) -> Result<Begun, ClientError> {
        #[derive(Deserialize)]
        struct Answer {
            attempt: Begun,
        }
        let path = format!("/api/train/runs/{run}/attempts");
        Ok(self.post::<Answer>(&path, Some(token), &body).await?.attempt)
    }

    async fn append_log(
        &self,
        run: &RunId,
        token: &Secret,
        (attempt, rank): (u32, u32),
        offset: u64,
        bytes: Bytes,
    ) -> Result<u64, ClientError> {
        #[derive(Deserialize)]
        struct Answer {
            size_bytes: u64,
        }
        let url = format!("{}/api/train/runs/{run}/logs/{attempt}/{rank}?offset={offset}", self.base);
        let request = self.http.request(Method::PUT, url).bearer_auth(token.expose()).body(bytes);
        let request = request.header(CONTENT_TYPE, "application/octet-stream");
        let response = request.send().await.map_err(|e| ClientError::Unreachable(chain(&e)))?;
        let answer: Answer =
            Self::accepted(response).await?.json().await.map_err(|e| ClientError::Unreachable(chain(&e)))?;
        Ok(answer.size_bytes)
    }

    async fn report(&self, run: &RunId, token: &Secret, batch: ReportBatch) -> Result<Stored, ClientError> {
        self.post(&format!("/api/train/runs/{run}/reports"), Some(token), &batch).await
    }

    async fn heartbeat(&self, beat: Heartbeat) -> Result<HeartbeatAnswer, ClientError> {
        let body = Heartbeats { runs: vec![beat] };
        let answers: HeartbeatAnswers = self.post("/api/train/heartbeats", None, &body).await?;
        answers
            .runs
            .into_iter()
            .next()
            .ok_or_else(|| ClientError::Unreachable("no answer to a heartbeat".into()))
    }
}
