//! Pages of whole records, for views that show more of a run than the list's ready-made documents: Ray's.

use std::collections::HashMap;

use tracing::warn;

use super::{
    StateError, StateHandle,
    index::{ListQuery, PageToken},
};
use crate::{
    base::{RunId, error::chain},
    model::{RunRecord, view::StatsOf},
};

/// Some runs with all that belongs to them.
#[derive(Debug)]
pub struct RecordPage {
    /// The runs in the order of the list. One that cannot be read is missing.
    pub records: Vec<RunRecord>,
    /// What the workers of these runs use right now, as far as they live on the head's host.
    pub stats: HashMap<RunId, StatsOf>,
    /// Where to go on; none on the last page.
    pub next: Option<PageToken>,
}

impl StateHandle {
    /// A page of the list as whole records, reconciled first.
    ///
    /// # Errors
    /// When the store itself cannot be read.
    pub async fn record_page(
        &self,
        page_size: u32,
        page_token: Option<PageToken>,
    ) -> Result<RecordPage, StateError> {
        self.reconcile_to_read().await?;
        let query = ListQuery { page_size, page_token, ..ListQuery::default() };
        let (ids, next) = {
            let index = self.shared.index.read();
            let page = index.page(&query, &self.shared.live)?;
            (page.entries.iter().map(|entry| entry.id().clone()).collect::<Vec<_>>(), page.next)
        };
        let records = self.records(&ids).await?;
        let stats = self.stats(&records).await?;
        Ok(RecordPage { records, stats, next })
    }

    /// These runs with all that belongs to them, in this order. One that cannot be read is missing.
    pub(super) async fn records(&self, ids: &[RunId]) -> Result<Vec<RunRecord>, StateError> {
        let mut records = Vec::with_capacity(ids.len());
        for record in self.shared.reader.records(ids).await? {
            match record {
                Ok(record) => records.push(record),
                Err(e) => warn!("a run is left out of a list: {}", chain(&e)),
            }
        }
        Ok(records)
    }
}
