//! Takes what is in a spool to a head, whoever left it: verbs, or metrics. What was delivered before is not stored again,
//! so that a delivery that was broken off begins anew.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use tracing::{debug, warn};

use super::{
    item::Item,
    link::limited,
    spool::{Spool, Wanted},
};
use crate::{
    base::{RunId, Secret},
    model::{
        metrics::{ReportBatch, Stored},
        verbs::RunVerb,
    },
    state::{ClientError, StateClient},
};

/// The pause before another try, doubling to the other.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MOST: Duration = Duration::from_secs(1);
/// So many batches are under way at a time. In which order they come makes no difference: each point has its step.
const AT_ONCE: usize = 16;

/// Why a spool is not delivered.
#[derive(Debug, thiserror::Error)]
pub enum Undelivered {
    /// The head does not answer, or does not take the run.
    #[error(transparent)]
    Head(#[from] ClientError),
    /// The spool cannot be read.
    #[error("the spool cannot be read")]
    Spool(#[from] io::Error),
}

/// What became of what was in a spool.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    /// Points that the head has now and had not before.
    pub points: u64,
    /// Points that it had.
    pub known_points: u64,
    /// Points that it does not take; why is in the log.
    pub refused_points: u64,
    /// Changes of the run that it took.
    pub changes: u64,
    /// Changes of the run that it does not take, since it has ended or is another controller's by now.
    pub stale_changes: u64,
    /// Lines that could not be read.
    pub bad_lines: u64,
    /// Bytes of segments that are done.
    #[serde(skip)]
    pub bytes: u64,
}

/// To whom it is taken, and by what right.
#[derive(Clone, Copy)]
pub(super) struct Address<'a> {
    pub(super) client: &'a dyn StateClient,
    pub(super) run: &'a RunId,
    pub(super) token: &'a Secret,
    /// A head that has not answered for so long is given up.
    pub(super) patience: Duration,
}

impl Address<'_> {
    /// Says one thing.
    pub(super) async fn say(&self, verb: &RunVerb) -> Result<(), ClientError> {
        persist(self.patience, || self.client.say(self.run, self.token, verb.clone())).await
    }

    /// Delivers a batch of so many points.
    async fn report(self, points: u64, batch: ReportBatch) -> (u64, Result<Stored, ClientError>) {
        let answer = persist(self.patience, || self.client.report(self.run, self.token, batch.clone())).await;
        (points, answer)
    }
}

/// Takes all metrics that are wanted, and removes what is done with. `wants` sees every item, in order.
pub(super) async fn deliver_metrics(
    spool: &Arc<Spool>,
    to: Address<'_>,
    tally: &mut Tally,
    mut wants: impl FnMut(&mut Item) -> bool,
    tell: impl Fn(&Tally),
) -> Result<(), Undelivered> {
    for (number, bytes) in blocking(spool, Spool::segments).await? {
        let mut segment = blocking(spool, move |spool| spool.read(number)).await?;
        loop {
            let (read, more) = tokio::task::spawn_blocking(move || {
                let items = segment.chunk(Wanted::All);
                (segment, items)
            })
            .await
            .map_err(io::Error::other)?;
            segment = read;
            let Some(items) = more? else { break };
            let mut waiting = Vec::new();
            for mut item in items {
                let (wanted, points) = (wants(&mut item), item.points());
                match item {
                    Item::Report(batch) if wanted => waiting.push((points, batch)),
                    Item::Report(_) => tally.refused_points += points,
                    Item::Say(_) | Item::Begin { .. } => {}
                }
            }
            while !waiting.is_empty() {
                let part = waiting.drain(..waiting.len().min(AT_ONCE));
                let under_way: Vec<_> = part.map(|(points, batch)| to.report(points, batch)).collect();
                for (points, answer) in join_all(under_way).await {
                    match answer {
                        Ok(Stored { known: false, .. }) => tally.points += points,
                        Ok(Stored { known: true, .. }) => tally.known_points += points,
                        Err(e @ ClientError::Unreachable(_)) => return Err(e.into()),
                        Err(ClientError::Refused { slug, detail }) => {
                            tally.refused_points += points;
                            warn!("the head did not take metrics ({slug}): {detail}");
                        }
                    }
                }
                tell(tally);
            }
        }
        if segment.bad > 0 {
            warn!("{} lines of {} could not be read and are lost", segment.bad, spool.dir().display());
            tally.bad_lines += segment.bad;
        }
        tally.bytes += bytes;
        tell(tally);
        blocking(spool, move |spool| {
            spool.remove_segment(number);
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// The changes of the run that a spool holds, in order. A beginning that its controller waited for is none: either it was
/// answered, and the head knows of it, or the attempt never began.
pub(super) async fn verbs(spool: &Arc<Spool>) -> Result<Vec<RunVerb>, Undelivered> {
    let items = blocking(spool, |spool| {
        let mut items = Vec::new();
        for number in spool.segments()?.into_keys() {
            let mut segment = spool.read(number)?;
            while let Some(more) = segment.chunk(Wanted::Verbs)? {
                items.extend(more);
            }
        }
        Ok(items)
    })
    .await?;
    let verbs = items.into_iter().filter_map(|item| match item {
        Item::Say(verb) => Some(verb),
        Item::Begin { ticket: 0, body } => Some(RunVerb::BeginAttempt(body)),
        Item::Begin { .. } | Item::Report(_) => None,
    });
    Ok(verbs.collect())
}

/// Works on a spool where it may block.
pub(super) async fn blocking<T: Send + 'static>(
    spool: &Arc<Spool>,
    work: impl FnOnce(&Spool) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let spool = Arc::clone(spool);
    tokio::task::spawn_blocking(move || work(&spool)).await.map_err(io::Error::other)?
}

/// Removes a spool that is delivered.
pub(super) async fn remove(spool: Arc<Spool>) {
    if let Some(spool) = Arc::into_inner(spool) {
        // The runtime ends: the next one finds it empty.
        let _ = tokio::task::spawn_blocking(move || spool.remove()).await;
    }
}

/// Asks until there is an answer, or the patience is over.
pub(super) async fn persist<T, F>(patience: Duration, ask: impl Fn() -> F) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, ClientError>>,
{
    let (begun, mut pause) = (Instant::now(), RETRY_FIRST);
    loop {
        match limited(ask()).await {
            Err(ClientError::Unreachable(why)) if begun.elapsed() < patience => {
                debug!("asked in vain: {why}");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RETRY_MOST);
            }
            answer => return answer,
        }
    }
}
