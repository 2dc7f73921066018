//! What the lanes know together of their server, told once per change.

use parking_lot::Mutex;

use crate::store::StoreError;

/// Whether the server can be reached, as far as the lanes know. A server that
/// goes away takes all lanes with it; that is one line in the log.
#[derive(Debug, Default)]
pub(super) struct Health {
    told: Mutex<Told>,
}

/// What was last told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Told {
    #[default]
    Nothing,
    Up,
    Down,
}

impl Health {
    /// A lane has a connection.
    pub(super) fn lane_is_up(&self, server: &str) {
        if self.is_news(Told::Up) {
            tracing::info!(server, "connected to Redis");
        }
    }

    /// A lane lost its connection, or could not get one.
    pub(super) fn lane_is_down(&self, error: &StoreError) {
        if self.is_news(Told::Down) {
            tracing::warn!(%error, "lost a connection to Redis; trying to connect again");
        }
    }

    fn is_news(&self, now: Told) -> bool {
        std::mem::replace(&mut *self.told.lock(), now) != now
    }
}
