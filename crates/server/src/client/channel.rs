//! A connection's bytes, encrypted or not.
//!
//! What is sent in the clear is decided by the [`Address`] alone: a server that does not offer encryption where it is wanted is
//! left, and what came before the handshake is never taken for encrypted.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use diligence_base::{Error, Result};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme, StreamOwned,
};

use super::address::{Address, Encryption};

const SSL_REQUEST: u32 = 80_877_103;
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// How long the server may take for each answer while the connection is made.
const GREETING_TIME_MAX: Duration = Duration::from_secs(30);
/// Where systems keep the certificates that they trust.
const SYSTEM_ROOTS: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/usr/local/share/certs/ca-root-nss.crt",
];

/// Bytes to and from a server.
pub(super) enum Channel {
    Plain(TcpStream),
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Channel {
    /// Connects, and encrypts as the address wants it.
    pub(super) fn open(address: &Address) -> Result<Self> {
        let failed = |error: &dyn std::fmt::Display| Error::resource(format!("{address} cannot be reached: {error}"));
        let candidates = (address.host.as_str(), address.port).to_socket_addrs().map_err(|error| failed(&error))?;
        let mut refused = io::Error::other("its name has no address");
        let mut connected = None;
        for candidate in candidates {
            match TcpStream::connect_timeout(&candidate, CONNECT_TIME_MAX) {
                Ok(stream) => {
                    connected = Some(stream);
                    break;
                }
                Err(error) => refused = error,
            }
        }
        let Some(mut stream) = connected else { return Err(failed(&refused)) };
        let prepared = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(GREETING_TIME_MAX)));
        prepared.map_err(|error| failed(&error))?;
        if address.encryption == Encryption::Never {
            return Ok(Channel::Plain(stream));
        }
        let mut answer = [0];
        let request = [8u32.to_be_bytes(), SSL_REQUEST.to_be_bytes()].concat();
        stream.write_all(&request).and_then(|()| stream.read_exact(&mut answer)).map_err(|error| failed(&error))?;
        match answer[0] {
            b'S' => Self::encrypted(address, stream),
            b'N' if address.encryption == Encryption::IfOffered => Ok(Channel::Plain(stream)),
            b'N' => Err(Error::resource(format!("{address} offers no encryption"))
                .with_hint("add ?sslmode=disable to the address if nobody can listen in between")),
            _ => Err(failed(&"it does not speak PostgreSQL's protocol")),
        }
    }

    fn encrypted(address: &Address, mut stream: TcpStream) -> Result<Self> {
        let failed = |error: &dyn std::fmt::Display| {
            Error::resource(format!("the connection to {address} cannot be encrypted: {error}"))
        };
        let name = ServerName::try_from(address.host.clone()).map_err(|error| failed(&error))?;
        let mut connection = ClientConnection::new(Arc::new(config(address)?), name).map_err(|error| failed(&error))?;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream).map_err(|error| failed(&error))?;
        }
        Ok(Channel::Encrypted(Box::new(StreamOwned::new(connection, stream))))
    }

    /// How long a read may wait.
    pub(super) fn wait_at_most(&self, time: Duration) -> io::Result<()> {
        let stream = match self {
            Channel::Plain(stream) => stream,
            Channel::Encrypted(stream) => &stream.sock,
        };
        // No time at all would be an error.
        stream.set_read_timeout(Some(time.max(Duration::from_millis(1))))
    }
}

impl Read for Channel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Channel::Plain(stream) => stream.read(buffer),
            Channel::Encrypted(stream) => stream.read(buffer),
        }
    }
}

impl Write for Channel {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Channel::Plain(stream) => stream.write(buffer),
            Channel::Encrypted(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Channel::Plain(stream) => stream.flush(),
            Channel::Encrypted(stream) => stream.flush(),
        }
    }
}

fn config(address: &Address) -> Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::bug(format!("TLS: {error}")))?;
    let mut config = match address.encryption {
        Encryption::Verified => builder.with_root_certificates(roots(address.roots.as_deref())?),
        _ => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider))),
    }
    .with_no_client_auth();
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(config)
}

/// Those who may vouch for servers.
fn roots(file: Option<&Path>) -> Result<RootCertStore> {
    let named = file.map(Path::to_owned).or_else(|| std::env::var_os("SSL_CERT_FILE").map(PathBuf::from));
    let system = || SYSTEM_ROOTS.iter().map(PathBuf::from).find(|path| path.is_file());
    let path = named.or_else(system).ok_or_else(|| {
        Error::file("this system has no list of trusted certificates").with_hint("name one with ?sslrootcert=FILE")
    })?;
    let unreadable = |error: &dyn std::fmt::Display| Error::file(format!("{}: {error}", path.display()));
    let certificates = CertificateDer::pem_file_iter(&path)
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
        .map_err(|error| unreadable(&error))?;
    let mut roots = RootCertStore::empty();
    // Lists of systems have some that are too old to be understood.
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Err(unreadable(&"there is no certificate in it"));
    }
    Ok(roots)
}

/// Takes any certificate: what `sslmode=require` and `prefer` mean.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, tokio_rustls::rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, tokio_rustls::rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, tokio_rustls::rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
