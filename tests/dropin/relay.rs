//! Passes connections on and counts them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::{TcpListener, TcpStream};

/// A way to a server.
pub struct Relay {
    pub address: String,
    count: Arc<AtomicUsize>,
}

impl Relay {
    /// To `server`, until the runtime of the test ends.
    pub async fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let count = Arc::new(AtomicUsize::new(0));
        let (server, counted) = (server.to_owned(), count.clone());
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                let server = server.clone();
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(server).await.expect("the server");
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Self { address, count }
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}
