//! The threads that serve, each with a runtime of its own.
//!
//! Nothing is stolen from one by another: what begins on a thread ends on it, and
//! nobody is woken elsewhere. They run from the start, so that what they are to
//! serve can be put together while parts of it already work.

use std::cell::Cell;
use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

thread_local! {
    static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Threads that run what is spawned on them until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Threads {
    handles: Arc<[Handle]>,
    _running: Arc<DropGuard>,
}

impl Threads {
    /// Starts so many.
    ///
    /// # Errors
    /// If the system gives none.
    pub fn start(count: NonZeroUsize) -> io::Result<Self> {
        let end = CancellationToken::new();
        let running = Arc::new(end.clone().drop_guard());
        let mut handles = Vec::with_capacity(count.get());
        for number in 0..count.get() {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            handles.push(runtime.handle().clone());
            let ended = end.clone();
            thread::Builder::new().name(format!("tidegate-{number}")).spawn(move || {
                NUMBER.set(Some(number));
                runtime.block_on(ended.cancelled_owned());
            })?;
        }
        Ok(Self { handles: handles.into(), _running: running })
    }

    /// How many there are.
    pub fn count(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.handles.len()).unwrap_or(NonZeroUsize::MIN)
    }

    /// Where to spawn, one for each thread.
    pub fn handles(&self) -> &[Handle] {
        &self.handles
    }
}

/// Which of the threads this is, if it is one.
pub fn number() -> Option<usize> {
    NUMBER.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_handle_is_a_thread_of_its_own_until_all_are_dropped() {
        let threads = Threads::start(NonZeroUsize::new(3).unwrap()).unwrap();
        let other = threads.clone();
        for (place, handle) in threads.handles().iter().enumerate() {
            assert_eq!(handle.spawn(async { number() }).await.unwrap(), Some(place));
        }
        drop(other);
        let handle = threads.handles()[0].clone();
        assert!(handle.spawn(async {}).await.is_ok());
        let pending = handle.spawn(std::future::pending::<()>());
        drop(threads);
        assert!(pending.await.unwrap_err().is_cancelled());
        assert_eq!(number(), None);
    }
}
