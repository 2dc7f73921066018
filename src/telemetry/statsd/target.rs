//! The way to the server.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpStream, UdpSocket, lookup_host};

/// How a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// One connection, lines back to back.
    Tcp,
    /// Packets of some lines each.
    Udp,
}

impl Protocol {
    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }

    /// How much is sent at once, in bytes: what one Ethernet frame carries
    /// through the usual tunnels, or a good piece.
    pub(super) const fn room(self) -> usize {
        match self {
            Self::Tcp => 64 << 10,
            Self::Udp => 1432,
        }
    }
}

/// A server that may be away.
#[derive(Debug)]
pub(super) struct Target {
    protocol: Protocol,
    host: String,
    port: u16,
    open: Option<Open>,
}

#[derive(Debug)]
enum Open {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl Target {
    pub(super) fn new(protocol: Protocol, host: &str, port: u16) -> Self {
        Self { protocol, host: host.into(), port, open: None }
    }

    /// Makes sure that there is a way. Packets get a fresh socket each time, as
    /// otherwise nobody would notice that the name stands for another address.
    pub(super) async fn open(&mut self) -> io::Result<()> {
        if let Some(Open::Tcp(stream)) = &self.open
            && !has_ended(stream)
        {
            return Ok(());
        }
        self.close();
        let addresses = lookup_host((self.host.as_str(), self.port)).await?;
        let mut refused = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in addresses {
            let opened = match self.protocol {
                Protocol::Tcp => TcpStream::connect(address).await.map(Open::Tcp),
                Protocol::Udp => open_udp(address).await.map(Open::Udp),
            };
            match opened {
                Ok(opened) => {
                    self.open = Some(opened);
                    return Ok(());
                }
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// Sends one batch.
    pub(super) async fn send(&mut self, batch: &[u8]) -> io::Result<()> {
        match &mut self.open {
            Some(Open::Tcp(stream)) => stream.write_all(batch).await,
            Some(Open::Udp(socket)) => socket.send(batch).await.map(|_| ()),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    pub(super) fn close(&mut self) {
        self.open = None;
    }
}

async fn open_udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let any = match address {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(any).await?;
    // Connected, so that it is told where nobody listens.
    socket.connect(address).await?;
    Ok(socket)
}

/// Whether the server has hung up: it would take the next batch to notice, and
/// that batch would be lost. Servers send nothing, and what they send is dropped.
fn has_ended(stream: &TcpStream) -> bool {
    loop {
        match stream.try_read(&mut [0; 256]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}
