//! The signals that ask the process to end.

use std::future::Future;
use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// The signals that end the process: SIGTERM, SIGINT and, as in
/// envoyproxy/ratelimit, SIGHUP. (Changed rules are noticed without a signal.)
#[derive(Clone, Debug)]
pub struct Signals(watch::Receiver<u32>);

impl Signals {
    /// Takes over the signals. They end the process no more by themselves.
    /// Needs a running runtime.
    ///
    /// # Errors
    /// If the system does not allow it.
    pub fn install() -> io::Result<Self> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        let (sender, receiver) = watch::channel(0);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                    _ = hang_up.recv() => {}
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
