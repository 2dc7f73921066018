//! The signals that ask the process to end.

use std::future::Future;
use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// The signals that end the process: SIGTERM and SIGINT.
#[derive(Clone, Debug)]
pub struct Signals(watch::Receiver<u32>);

impl Signals {
    /// Takes over both signals. They end the process no more by themselves.
    /// Needs a running runtime.
    ///
    /// # Errors
    /// If the system does not allow it.
    pub fn install() -> io::Result<Self> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let (sender, receiver) = watch::channel(0);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                sender.send_modify(|count| *count += 1);
            }
        });
        Ok(Self(receiver))
    }

    /// Waits until `count` signals have come, of whichever kind.
    pub fn received(&self, count: u32) -> impl Future<Output = ()> + Send + 'static {
        let mut seen = self.0.clone();
        async move {
            let _ = seen.wait_for(|received| *received >= count).await;
        }
    }
}
