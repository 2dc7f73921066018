//! Where the service listens: TCP ports and Unix sockets.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream, lookup_host};
use tokio::time::sleep;

/// Connections that the kernel keeps for us while we are busy.
const BACKLOG: u32 = 1024;

/// How long to wait before accepting again when that fails, for example because
/// no file descriptors are left.
const PAUSE: Duration = Duration::from_millis(100);

/// A TCP address, `host:port`. The host may be a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort(String);

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A TCP port.
    Tcp(HostPort),
    /// A Unix socket.
    Unix(PathBuf),
}

/// An address that is listened on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP port, the real one where port 0 was asked for.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

/// An open listener.
#[derive(Debug)]
pub enum Listener {
    /// On a TCP port.
    Tcp(TcpListener),
    /// On a Unix socket.
    Unix(UnixListener),
}

/// An open listener and what belongs to it.
#[derive(Debug)]
pub struct Bound {
    /// Takes connections.
    pub listener: Listener,
    /// Where it listens.
    pub address: Address,
    /// The file of a Unix socket; to be kept until the service ends.
    pub file: Option<SocketFile>,
}

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The name has no address, or the port is taken or not allowed.
    #[error(
        "cannot listen on {0}: {1}; choose another address (--listen, --http-listen, \
         --prometheus-addr, --debug-listen), or stop what uses this one"
    )]
    Tcp(HostPort, #[source] io::Error),
    /// The socket cannot be made or examined.
    #[error("cannot listen on unix:{}: {source}", path.display())]
    Unix {
        /// The path of the socket.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another process answers on the socket.
    #[error(
        "cannot listen on unix:{}: another process is listening on it; stop that process or \
         choose another path", .0.display()
    )]
    Alive(PathBuf),
    /// The path belongs to something that is not a socket.
    #[error(
        "cannot listen on unix:{}: there is a file that is not a socket; it was left as it is, \
         remove it or choose another path", .0.display()
    )]
    NotASocket(PathBuf),
}

impl FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (host, port) = text.rsplit_once(':').ok_or("expected host:port")?;
        if port.parse::<u16>().is_err() {
            return Err(format!("\"{port}\" is not a port (0 to 65535)"));
        }
        match host {
            "" => Err(format!("the host is missing; write 0.0.0.0:{port} for all interfaces")),
            _ if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) => {
                Err(format!("an IPv6 address needs brackets: [{host}]:{port}"))
            }
            _ => Ok(Self(text.into())),
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("unix:").map(|path| path.strip_prefix("//").unwrap_or(path)) {
            Some("") => Err("the path is missing; write unix:/path/to/socket".into()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp),
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Opens a TCP port and tells which one it is.
///
/// # Errors
/// If the name has no address or none of its addresses can be had.
pub async fn bind_tcp(host_port: &HostPort) -> Result<(TcpListener, SocketAddr), BindError> {
    let failed = |error| BindError::Tcp(host_port.clone(), error);
    let addresses = lookup_host(&host_port.0).await.map_err(failed)?;
    let mut refused = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match open_tcp(address) {
            Ok(opened) => return Ok(opened),
            Err(error) => refused = error,
        }
    }
    Err(failed(refused))
}

fn open_tcp(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Connections of an earlier process that linger must not block a restart.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = socket.listen(BACKLOG)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Opens `listen`.
///
/// # Errors
/// If the port cannot be had; if the path of the socket is in use by a live
/// process or by a file that is not a socket.
pub async fn bind(listen: &Listen) -> Result<Bound, BindError> {
    match listen {
        Listen::Tcp(host_port) => {
            let (listener, address) = bind_tcp(host_port).await?;
            let listener = Listener::Tcp(listener);
            Ok(Bound { listener, address: Address::Tcp(address), file: None })
        }
        Listen::Unix(path) => bind_unix(path).await,
    }
}

/// Makes a socket at `path`, in place of one that a dead process left there.
async fn bind_unix(path: &Path) -> Result<Bound, BindError> {
    let failed = |source| BindError::Unix { path: path.into(), source };
    // Two processes that start at once must not take turns in removing each
    // other's fresh socket, so the directory is locked from the look at the old
    // socket until the new one is there. Where it cannot be locked (no right to
    // read it, a file system without locks) only that race remains open.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let _lock = File::open(parent.unwrap_or(Path::new("."))).and_then(|directory| {
        directory.lock()?;
        Ok(directory)
    });
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(BindError::NotASocket(path.into()));
        }
        Ok(_) => remove_if_dead(path).await?,
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    let file = SocketFile::new(path).map_err(failed)?;
    Ok(Bound {
        listener: Listener::Unix(listener),
        address: Address::Unix(path.into()),
        file: Some(file),
    })
}

async fn remove_if_dead(path: &Path) -> Result<(), BindError> {
    let failed = |source| BindError::Unix { path: path.into(), source };
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(failed)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // A live process too busy to take the connection.
        Ok(_) => Err(BindError::Alive(path.into())),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(BindError::Alive(path.into())),
        Err(error) => Err(failed(error)),
    }
}

/// The file of a Unix socket. Dropping it removes the file, unless another
/// socket has taken the path meanwhile.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    fn new(path: &Path) -> io::Result<Self> {
        let found = fs::symlink_metadata(path)?;
        Ok(Self { path: path.into(), device: found.dev(), inode: found.ino() })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == (self.device, self.inode));
        if ours {
            // Nothing depends on it: the next start removes a dead socket.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The next connection that `accept` gives, however often that fails before.
pub(super) async fn accepted<T, F>(accept: impl Fn() -> F) -> T
where
    F: Future<Output = io::Result<T>>,
{
    loop {
        match accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection; trying again");
                sleep(PAUSE).await;
            }
        }
    }
}

/// The next connection to a TCP port.
pub(super) async fn accept_tcp(listener: &TcpListener) -> io::Result<TcpStream> {
    let (stream, _) = listener.accept().await?;
    // An answer is one small segment; waiting for more costs 40 ms.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_faults_are_told() {
        assert!(matches!("[::1]:80".parse(), Ok(Listen::Tcp(_))));
        assert!(matches!("localhost:0".parse(), Ok(Listen::Tcp(_))));
        for text in ["unix:/run/t.sock", "unix:///run/t.sock"] {
            assert_eq!(text.parse(), Ok(Listen::Unix("/run/t.sock".into())));
        }
        for (text, told) in [
            (":8081", "0.0.0.0:8081"),
            ("::1:8081", "[::1]:8081"),
            ("localhost", "host:port"),
            ("localhost:http", "not a port"),
            ("localhost:65536", "not a port"),
            ("unix:", "the path is missing"),
        ] {
            let error = text.parse::<Listen>().unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }

    #[tokio::test]
    async fn a_socket_that_another_process_replaced_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let bound = bind(&Listen::Unix(path.clone())).await.unwrap();
        fs::remove_file(&path).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        drop(bound);
        assert!(path.exists());
    }

    #[tokio::test]
    async fn a_taken_port_is_told_by_name() {
        let (_taken, address) = bind_tcp(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = address.to_string();
        let error = bind_tcp(&address.parse().unwrap()).await.unwrap_err().to_string();
        assert!(error.contains(&address) && error.contains("in use"), "{error}");
    }
}
