//! Leases on the way to one server and back.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::backend::Backends;
use super::spread;
use crate::limit::{Cost, Verdict};
use crate::store::lease::{LeaseBook, LeaseUsage};
use crate::store::near::NearCache;
use crate::store::{Plan, StoreError, Verdicts};
use crate::units::{Span, Timestamp};

/// How often leases that are over are looked for.
const PAUSE: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Debug)]
pub(super) struct Leasing {
    book: LeaseBook,
    backends: Arc<Backends>,
    near: Option<Arc<NearCache>>,
    deadline: Span,
}

/// A plan that resets something: the leases of that are void before it is decided,
/// and those that come in meanwhile as well, however it ends.
#[derive(Debug)]
pub(super) struct Forgetting<'a>(&'a LeaseBook, &'a Plan);

impl Leasing {
    pub(super) fn new(
        backends: Arc<Backends>,
        near: Option<Arc<NearCache>>,
        deadline: Span,
    ) -> Self {
        Self { book: LeaseBook::default(), backends, near, deadline }
    }

    /// Serves a request, if enough was leased for it.
    pub(super) fn serve(&self, plan: &Plan) -> Option<Verdict> {
        self.book.serve(plan)
    }

    /// Has `plan` decided; if its key is hot, together with a lease.
    pub(super) async fn decide(&self, plan: &Plan) -> Result<Verdicts, StoreError> {
        let Some(advance) = self.book.advance(plan) else {
            let said = spread::decide(&self.backends, plan, None, self.deadline).await?;
            return Ok(said.verdicts);
        };
        let said = spread::decide(&self.backends, advance.plan(), None, self.deadline).await?;
        advance.receive(&said.verdicts, said.at);
        let mut verdicts = said.verdicts;
        verdicts.truncate(plan.charges.len());
        Ok(verdicts)
    }

    /// To be held while `plan` is decided, if it resets anything.
    pub(super) fn forgetting<'a>(&'a self, plan: &'a Plan) -> Option<Forgetting<'a>> {
        let resets = plan.charges.iter().any(|charge| charge.cost == Cost::Reset);
        resets.then(|| {
            self.book.forget(plan);
            Forgetting(&self.book, plan)
        })
    }

    /// Gives back leases that are over, for ever.
    pub(super) async fn run(self: Arc<Self>) {
        loop {
            sleep(PAUSE).await;
            self.book.end_those_over();
            self.give_back(None).await;
        }
    }

    /// Ends all leases and gives back what is left of them.
    pub(super) async fn end_all(&self, pinned: Option<Timestamp>) {
        self.book.end_all(pinned);
        self.give_back(pinned).await;
    }

    /// Gives back what waits for it. What cannot be given back runs out with its
    /// window.
    async fn give_back(&self, pinned: Option<Timestamp>) {
        while let Some(back) = self.book.next_return(pinned) {
            // A refusal that the near cache believes is void then.
            let _question = self.near.as_ref().map(|near| near.question(&back.plan));
            let taken = Some(back.taken);
            let given = spread::decide(&self.backends, &back.plan, taken, self.deadline).await;
            if given.is_ok() {
                self.book.note_return(&back);
            }
        }
    }

    pub(super) fn usage(&self) -> LeaseUsage {
        self.book.usage()
    }
}

impl Drop for Forgetting<'_> {
    fn drop(&mut self) {
        self.0.forget(self.1);
    }
}
