//! Connecting as a URL says, encrypted or not.
//!
//! The [`Url`] alone decides what is sent in the clear: the client leaves a server that does not offer encryption where
//! the URL demands it, and never treats bytes from before the handshake as encrypted.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use diligence_base::{Error, Result};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme, WantsVerifier,
};

use crate::message;
use crate::socket::Socket;
use crate::url::{Encryption, Url};

/// The time limit for each address of a host name.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// The files in which systems keep their trusted root certificates.
const SYSTEM_ROOTS: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/usr/local/share/certs/ca-root-nss.crt",
];

/// Connects, and encrypts as the URL wants it.
pub(crate) async fn connect(url: &Url) -> Result<Socket> {
    let failed = |error: &dyn std::fmt::Display| Error::resource(format!("{url} cannot be reached: {error}"));
    if let Some(path) = url.socket() {
        // A local socket cannot be eavesdropped on.
        return Ok(Socket::Local(UnixStream::connect(path).await.map_err(|error| failed(&error))?));
    }
    let candidates = tokio::net::lookup_host((url.host.as_str(), url.port)).await.map_err(|error| failed(&error))?;
    let mut refused = io::Error::other("the host name has no address");
    let mut connected = None;
    for candidate in candidates {
        let connect = tokio::time::timeout(CONNECT_TIME_MAX, TcpStream::connect(candidate));
        match connect.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(stream) => {
                connected = Some(stream);
                break;
            }
            Err(error) => refused = error,
        }
    }
    let Some(mut stream) = connected else { return Err(failed(&refused)) };
    stream.set_nodelay(true).map_err(|error| failed(&error))?;
    if url.encryption == Encryption::Never {
        return Ok(Socket::Tcp(stream));
    }
    stream.write_all(&message::encryption()).await.map_err(|error| failed(&error))?;
    match stream.read_u8().await.map_err(|error| failed(&error))? {
        b'S' => encrypted(url, stream).await,
        b'N' if url.encryption == Encryption::IfOffered => Ok(Socket::Tcp(stream)),
        b'N' => Err(Error::resource(format!("{url} does not offer encryption"))
            .with_hint("add ?sslmode=disable to the URL if the network is trusted")),
        _ => Err(failed(&"it does not speak the PostgreSQL protocol")),
    }
}

async fn encrypted(url: &Url, stream: TcpStream) -> Result<Socket> {
    let failed = |error: &dyn std::fmt::Display| {
        let cause = error.to_string();
        let error = Error::resource(format!("the connection to {url} cannot be encrypted: {cause}"));
        match refusal_hint(&cause) {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    };
    let name = ServerName::try_from(url.host.clone()).map_err(|error| failed(&error))?;
    let connector = TlsConnector::from(Arc::new(config(url)?));
    let stream = connector.connect(name, stream).await.map_err(|error| failed(&error))?;
    Ok(Socket::Encrypted(Box::new(stream)))
}

/// What to do about a certificate that is refused, by what the library says of it.
fn refusal_hint(cause: &str) -> Option<&'static str> {
    const HINTS: [(&str, &str); 4] = [
        (
            "CaUsedAsEndEntity",
            "the server shows the certificate of an authority: make one of its own (openssl req -x509 … -addext \
             basicConstraints=critical,CA:FALSE), or connect with sslmode=require, which does not check it",
        ),
        (
            "UnknownIssuer",
            "name the file of the authority that signed the certificate: ?sslrootcert=FILE; sslmode=require does not \
             check it",
        ),
        ("not valid for", "connect to the server by a name that its certificate has"),
        ("expired", "the certificate of the server has to be renewed"),
    ];
    HINTS.iter().find(|(word, _)| cause.contains(word)).map(|(_, hint)| *hint)
}

/// Encrypts a connection to a host. Its certificate must match the name and be signed by an authority of the system's
/// list, or of the file that `SSL_CERT_FILE` names. Fails with kind `File` if there is no such list, and with kind
/// `Resource` otherwise.
pub async fn encrypt(host: &str, stream: TcpStream) -> Result<TlsStream<TcpStream>> {
    let failed = |error: &dyn std::fmt::Display| {
        Error::resource(format!("the connection to {host} cannot be encrypted: {error}"))
    };
    let name = ServerName::try_from(host.to_owned()).map_err(|error| failed(&error))?;
    let config = builder(Arc::new(ring::default_provider()))?.with_root_certificates(roots(None)?);
    let connector = TlsConnector::from(Arc::new(config.with_no_client_auth()));
    connector.connect(name, stream).await.map_err(|error| failed(&error))
}

fn builder(provider: Arc<CryptoProvider>) -> Result<ConfigBuilder<ClientConfig, WantsVerifier>> {
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::bug(format!("TLS: {error}")))
}

/// The TLS configuration.
fn config(url: &Url) -> Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = builder(provider.clone())?;
    let mut config = match url.encryption {
        Encryption::Verified => builder.with_root_certificates(roots(url.roots.as_deref())?),
        _ => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider))),
    }
    .with_no_client_auth();
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(config)
}

/// The trusted root certificates.
fn roots(file: Option<&Path>) -> Result<RootCertStore> {
    let named = file.map(Path::to_owned).or_else(|| std::env::var_os("SSL_CERT_FILE").map(PathBuf::from));
    let system = || SYSTEM_ROOTS.iter().map(PathBuf::from).find(|path| path.is_file());
    let path = named.or_else(system).ok_or_else(|| {
        Error::file("no trusted root certificates were found on this system")
            .with_hint("name a file of them with ?sslrootcert=FILE")
    })?;
    let unreadable = |error: &dyn std::fmt::Display| Error::file(format!("{}: {error}", path.display()));
    let certificates = CertificateDer::pem_file_iter(&path)
        .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
        .map_err(|error| unreadable(&error))?;
    let mut roots = RootCertStore::empty();
    // System lists contain some certificates that are too old to parse.
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Err(unreadable(&"it contains no certificate"));
    }
    Ok(roots)
}

/// Accepts any certificate: what `sslmode=require` and `prefer` mean.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_is_refused_has_a_hint() {
        for (cause, word) in [
            ("invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))", "CA:FALSE"),
            ("invalid peer certificate: UnknownIssuer", "sslrootcert"),
            (
                "invalid peer certificate: certificate not valid for name \"a\"; certificate is only valid for b",
                "a name",
            ),
            ("invalid peer certificate: certificate expired: verification time 7 (UNIX)", "renewed"),
        ] {
            assert!(refusal_hint(cause).is_some_and(|hint| hint.contains(word)), "{cause}");
        }
        assert_eq!(refusal_hint("connection reset by peer"), None);
    }
}
