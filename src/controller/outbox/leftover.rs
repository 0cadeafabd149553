//! Spools whose writer is gone, for `trainhead sync`: a controller's, or that of a Python program. What became of the run
//! is said first, as far as it is still this controller's; then its metrics, as somebody who has joined the run, so that
//! late words keep no run alive.

use std::{io, path::Path, sync::Arc, time::Duration};

use serde::Deserialize;
use tracing::{debug, warn};

use super::{
    courier::{self, Address, Tally, Undelivered, blocking, deliver_metrics, persist},
    item::Item,
    spool::{About, Found, Spool},
};
use crate::{
    base::{ActorId, RunId, Secret},
    model::{commands::RegisterRun, verbs::RunVerb},
    state::{ClientError, HttpState, StateClient},
};

/// A head that has not answered for so long is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// A spool that is to be delivered. Nobody else delivers it as long as this lives.
#[derive(Debug)]
pub struct Leftover {
    spool: Arc<Spool>,
    about: About,
    bytes: u64,
}

/// What there is of a spool.
#[derive(Debug)]
pub enum FoundSpool {
    /// It can be delivered.
    Here(Box<Leftover>),
    /// Its writer lives and delivers it.
    Written,
    /// Somebody else delivers it.
    Delivered,
    /// There is none, or none any more.
    Nothing,
}

/// The run as the head has it.
#[derive(Debug, Deserialize)]
struct SeenRun {
    controller_actor_id: ActorId,
    end_time_ms: Option<i64>,
    num_attempts: u32,
}

/// Whose the run is.
enum Standing {
    /// Still, or now, the spool's controller's.
    Ours(Secret),
    /// Another controller's, or it has ended.
    Others,
}

impl Leftover {
    /// Opens the spool in a directory.
    ///
    /// # Errors
    /// When it is there and cannot be used.
    pub async fn open(dir: &Path) -> io::Result<FoundSpool> {
        let dir = dir.to_owned();
        let found =
            tokio::task::spawn_blocking(move || Spool::open(&dir)).await.map_err(io::Error::other)??;
        let (spool, about) = match found {
            Found::Here(spool, about) => (Arc::new(spool), *about),
            Found::Written => return Ok(FoundSpool::Written),
            Found::Delivered => return Ok(FoundSpool::Delivered),
            Found::Nothing => return Ok(FoundSpool::Nothing),
        };
        let bytes = blocking(&spool, Spool::segments).await?.values().sum();
        Ok(FoundSpool::Here(Box::new(Self { spool, about, bytes })))
    }

    /// Whose it is.
    #[must_use]
    pub fn about(&self) -> &About {
        &self.about
    }

    /// How many bytes it has.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Delivers it and removes it. What could not be delivered stays.
    ///
    /// # Errors
    /// When the head does not answer or does not take the run, or the spool cannot be read.
    pub async fn deliver(
        mut self: Box<Self>,
        head: &HttpState,
        tell: impl Fn(&Tally),
    ) -> Result<Tally, Undelivered> {
        let mut tally = Tally::default();
        let verbs = courier::verbs(&self.spool).await?;
        let standing = self.say(head, verbs, &mut tally).await?;
        let token = self.join(head).await?;
        // Of another controller's run: points of an attempt that the head never heard of stand with its newest one.
        let newest = match standing {
            Standing::Ours(_) => u32::MAX,
            Standing::Others => self.look(head).await?.num_attempts.saturating_sub(1),
        };
        let wants = |item: &mut Item| {
            if let Item::Report(batch) = item {
                batch.attempt = batch.attempt.min(newest);
            }
            true
        };
        let to = self.address(head, &token);
        deliver_metrics(&self.spool, to, &mut tally, wants, tell).await?;
        if homeless > 0 {
            warn!(
                "{homeless} points are of attempts that the head did not hear of before the run was another controller's"
            );
        }
        courier::remove(self.spool).await;
        Ok(tally)
    }

    /// Says what became of the run, as far as it is its controller's to say.
    async fn say(
        &mut self,
        head: &HttpState,
        verbs: Vec<RunVerb>,
        tally: &mut Tally,
    ) -> Result<Standing, Undelivered> {
        let known = self.about.controller_token.clone();
        let mut registered = known.is_none();
        let mut standing = match known {
            Some(token) => Standing::Ours(token),
            None => self.register(head).await?,
        };
        for verb in verbs {
            loop {
                let Standing::Ours(token) = &standing else {
                    tally.stale_changes += 1;
                    break;
                };
                match self.address(head, token).say(&verb).await {
                    Ok(()) => tally.changes += 1,
                    Err(ClientError::Refused { slug, .. })
                        if !registered && matches!(slug.as_str(), "wrong-token" | "run-not-found") =>
                    {
                        // This head is another one than the spool's, or has lost what it knew.
                        registered = true;
                        standing = self.register(head).await?;
                        continue;
                    }
                    Err(ClientError::Refused { slug, detail }) => {
                        debug!("the head did not take a change ({slug}): {detail}");
                        tally.stale_changes += 1;
                        if matches!(slug.as_str(), "wrong-token" | "stale-controller") {
                            standing = Standing::Others;
                        }
                    }
                    Err(e @ ClientError::Unreachable(_)) => return Err(e.into()),
                }
                break;
            }
        }
        Ok(standing)
    }

    /// Registers the run as it was, or was to be.
    async fn register(&mut self, head: &HttpState) -> Result<Standing, Undelivered> {
        // Late as it is, it takes nothing from a controller that lives.
        let id = Some(self.about.run_id.clone());
        let mut body = RegisterRun { id, takeover: false, ..self.about.register.clone() };
        if body.resume {
            match self.look(head).await {
                // It was, and what became of it is said: it does not go on once more.
                Ok(run)
                    if run.controller_actor_id == body.controller.actor_id && run.end_time_ms.is_some() =>
                {
                    return Ok(Standing::Others);
                }
                Ok(_) => {}
                // What it was to go on with is in another spool perhaps, which comes later.
                Err(Undelivered::Head(ClientError::Refused { slug, .. })) if slug == "run-not-found" => {
                    body.resume = false;
                }
                Err(e) => return Err(e),
            }
        }
        match persist(PATIENCE, || head.register(body.clone())).await {
            Ok(registration) => {
                self.about.controller_token = Some(registration.token.clone());
                let about = self.about.clone();
                blocking(&self.spool, move |spool| spool.write_about(&about)).await?;
                Ok(Standing::Ours(registration.token))
            }
            Err(ClientError::Refused { slug, .. })
                if matches!(slug.as_str(), "run-exists" | "run-ended" | "stale-controller") =>
            {
                Ok(Standing::Others)
            }
            Err(e) => Err(e.into()),
        }
    }

    /// The token to deliver metrics with.
    async fn join(&self, head: &HttpState) -> Result<Secret, Undelivered> {
        let body = RegisterRun {
            id: Some(self.about.run_id.clone()),
            join: true,
            resume: false,
            takeover: false,
            ..self.about.register.clone()
        };
        Ok(persist(PATIENCE, || head.register(body.clone())).await?.token)
    }

    async fn look(&self, head: &HttpState) -> Result<SeenRun, Undelivered> {
        let path = format!("/api/train/runs/{}", self.about.run_id);
        Ok(persist(PATIENCE, || head.get::<SeenRun>(&path, &[])).await?)
    }

    fn address<'a>(&'a self, client: &'a dyn StateClient, token: &'a Secret) -> Address<'a> {
        let run: &RunId = &self.about.run_id;
        Address { client, run, token, patience: PATIENCE }
    }
}
