//! TLS 1.2 and 1.3: trusted certificates, the handshake, its errors. Not here: TCP (`connect.rs`), I/O (`stream.rs`).
//!
//! Trusted are the root certificates of the system, or those in `SSL_CERT_FILE` and `SSL_CERT_DIR`, and those in one
//! file of the user. An untrusted certificate is a permanent failure: a retry would not change it.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::stream::Stream;
use crate::url::Address;
use shoal_core::display::escape;
use shoal_core::error::{Error, Kind, Result};

/// The certificates that a client trusts, and the TLS sessions that its connections can resume. The roots are read when
/// they are first needed, because that takes milliseconds.
#[derive(Default)]
pub struct Tls {
    /// A file with more root certificates, in PEM.
    pub ca_file: Option<PathBuf>,
    /// Trust every certificate.
    pub insecure: bool,
    config: OnceLock<Arc<ClientConfig>>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("ca_file", &self.ca_file).field("insecure", &self.insecure).finish()
    }
}

impl Tls {
    /// Trusts these certificates too; `insecure`: any. Nothing is read before [`Tls::prepare`].
    pub fn new(ca_file: Option<PathBuf>, insecure: bool) -> Tls {
        Tls { ca_file, insecure, config: OnceLock::new() }
    }

    /// Reads the root certificates, unless they were read before.
    ///
    /// # Errors
    /// [`Kind::Config`] if no certificate can be read.
    pub fn prepare(&self) -> Result<Arc<ClientConfig>> {
        if let Some(config) = self.config.get() {
            return Ok(config.clone());
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = self.roots()?;
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|e| Error::new(Kind::Internal, format!("TLS cannot be set up: {e}")))?;
        let mut config = match roots {
            Some(roots) => builder.with_root_certificates(roots).with_no_client_auth(),
            None => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(TrustAny(provider))).with_no_client_auth()
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // If two threads arrive at once, the second uses the configuration of the first: both must share the sessions.
        Ok(self.config.get_or_init(|| Arc::new(config)).clone())
    }

    /// The trusted root certificates; `None`: every certificate is trusted.
    fn roots(&self) -> Result<Option<RootCertStore>> {
        let mut roots = RootCertStore::empty();
        if let Some(path) = &self.ca_file {
            let found = rustls_native_certs::load_certs_from_paths(Some(path), None);
            let config = |why: String| {
                Error::new(Kind::Config, why)
                    .on(&escape(path.as_os_str().as_encoded_bytes()))
                    .hint("`ca_file` must be a file of PEM certificates: -----BEGIN CERTIFICATE-----")
            };
            if let Some(error) = found.errors.first() {
                return Err(config(format!("cannot read the trusted certificates: {error}")));
            }
            if roots.add_parsable_certificates(found.certs).0 == 0 {
                return Err(config("the file contains no certificate".to_owned()));
            }
        }
        if self.insecure {
            return Ok(None);
        }
        let found = rustls_native_certs::load_native_certs();
        let why = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let why = format!("this machine has no certificates to trust{}", escape(why.as_bytes()));
            let hint =
                "install them (the package ca-certificates), name them in SSL_CERT_FILE, or give them as `ca_file`";
            return Err(Error::new(Kind::Config, why).hint(hint));
        }
        Ok(Some(roots))
    }

    /// Performs the handshake.
    ///
    /// # Errors
    /// [`Kind::Tls`] if the peer is not trusted; [`Kind::Connect`] if the connection failed.
    pub(crate) async fn shake_hands(&self, address: &Address, stream: TcpStream) -> Result<Stream> {
        let name = ServerName::try_from(address.host.clone()).map_err(|_| {
            Error::new(Kind::Tls, "a certificate cannot be issued for this host name").on(&address.shown())
        })?;
        match TlsConnector::from(self.prepare()?).connect(name, stream).await {
            Ok(stream) => Ok(Stream::Tls(Box::new(stream))),
            Err(error) => Err(failed(address, &error)),
        }
    }
}

/// Why a handshake failed.
fn failed(address: &Address, error: &io::Error) -> Error {
    let on = address.shown();
    match cause(error) {
        Some(cause) => refused(cause, &address.host).unwrap_or_else(|| {
            Error::new(Kind::Connect, format!("the TLS handshake failed: {}", escape(cause.to_string().as_bytes())))
        }),
        None => Error::new(Kind::Connect, format!("the connection failed in the TLS handshake: {error}"))
            .errno(error.raw_os_error()),
    }
    .on(&on)
}

/// The permanent failure behind an error after the handshake: TLS 1.3 servers check client certificates only then.
pub(crate) fn refused_later(error: &io::Error) -> Option<Error> {
    match cause(error)? {
        cause @ rustls::Error::AlertReceived(_) => refused(cause, ""),
        _ => None,
    }
}

fn cause(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// The failure, if a retry is pointless.
fn refused(cause: &rustls::Error, host: &str) -> Option<Error> {
    use rustls::Error as Tls;
    let (why, hint) = match cause {
        Tls::InvalidCertificate(why) => bad_certificate(why, host),
        Tls::AlertReceived(AlertDescription::ProtocolVersion) | Tls::PeerIncompatible(_) => {
            (format!("the server supports neither TLS 1.2 nor TLS 1.3 ({cause})"), "this must be changed on the server")
        }
        Tls::AlertReceived(AlertDescription::CertificateRequired) => {
            ("the server requires a client certificate (mutual TLS), which shoal does not support".to_owned(), "")
        }
        // These alerts may be temporary.
        Tls::AlertReceived(
            AlertDescription::InternalError | AlertDescription::CloseNotify | AlertDescription::UserCanceled,
        ) => return None,
        Tls::AlertReceived(alert) => (format!("the server refuses this client ({alert:?})"), ""),
        Tls::InvalidMessage(_) => ("the server's answer is not TLS".to_owned(), "does it speak http:// on this port?"),
        Tls::NoApplicationProtocol | Tls::PeerMisbehaved(_) => (format!("TLS with this server failed: {cause}"), ""),
        _ => return None,
    };
    let error = Error::new(Kind::Tls, escape(why.as_bytes()));
    Some(if hint.is_empty() { error } else { error.hint(hint) })
}

fn bad_certificate(why: &CertificateError, host: &str) -> (String, &'static str) {
    const RENEW: &str =
        "the server needs a new certificate, or this machine's clock is wrong; `insecure=True` trusts it anyway";
    const TRUST: &str = "if the server is yours, pass the certificate that signed it with `ca_file`; `insecure=True` trusts any \
        certificate";
    const NAME: &str = "use a host name that the certificate has; `insecure=True` trusts it anyway";
    let date = |time: &UnixTime| httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_secs(time.as_secs()));
    match why {
        CertificateError::Expired => ("the server's certificate has expired".to_owned(), RENEW),
        CertificateError::ExpiredContext { not_after, .. } => {
            (format!("the server's certificate has expired, on {}", date(not_after)), RENEW)
        }
        CertificateError::NotValidYet => ("the server's certificate is not valid yet".to_owned(), RENEW),
        CertificateError::NotValidYetContext { not_before, .. } => {
            (format!("the server's certificate is not valid before {}", date(not_before)), RENEW)
        }
        CertificateError::NotValidForName => {
            (format!("the server's certificate is for another host than \"{host}\""), NAME)
        }
        CertificateError::NotValidForNameContext { presented, .. } => {
            let presented = presented.join(", ");
            (format!("the server's certificate is for another host than \"{host}\": {presented}"), NAME)
        }
        CertificateError::UnknownIssuer => (
            "the server's certificate is not signed by an authority that this machine trusts (unknown issuer)"
                .to_owned(),
            TRUST,
        ),
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => (
            "the server's certificate is a self-signed CA certificate, which a server must not use".to_owned(),
            "sign a certificate for the server with it, and pass the CA certificate with `ca_file`; `insecure=True` \
            trusts any certificate",
        ),
        other => (format!("the server's certificate is not trusted: {other}"), TRUST),
    }
}

/// Accepts every certificate. Signatures of the handshake are still verified: an inconsistent handshake is refused.
#[derive(Debug)]
struct TrustAny(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
