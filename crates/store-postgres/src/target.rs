//! Where the database is, and how the connection to it is protected.
//!
//! The connection string is libpq's URL or `key=value` form. Beyond what the driver reads, `sslmode` may be `verify-ca` or
//! `verify-full`, and `sslrootcert` a file of PEM certificates or `system` for the public authorities.

use std::path::Path;
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use millpond_store::{StoreError, StoreErrorKind};
use percent_encoding::percent_decode_str;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres::Config;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres_rustls::MakeRustlsConnect;

/// A database, as it is connected to.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) config: Config,
    pub(crate) tls: MakeRustlsConnect,
    /// What is being done while a connection is made, for who reads that it failed: how much is asked of the other side.
    pub(crate) connecting: &'static str,
}

impl std::fmt::Debug for Target {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("database", &self.config.get_dbname()).finish_non_exhaustive()
    }
}

/// How sure one has to be of whom one talks to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trust {
    /// The connection is encrypted, with anybody.
    Anybody,
    /// The certificate is from one of the authorities.
    Authority,
    /// And is the host's.
    Host,
}

/// Connections that say nothing for so long are asked whether they still are.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
/// What was sent and is not taken in for so long by the other side ends the connection.
const UNTAKEN_MAX: Duration = Duration::from_secs(20);

impl Target {
    /// Reads a connection string.
    pub(crate) fn parse(url: &str) -> Result<Self, StoreError> {
        let parts = Parts::of(url);
        let mut config = Config::from_str(&parts.rest).map_err(|error| {
            // The driver's message does not hold the password.
            let cause =
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            invalid(&format!("the connection string cannot be read: {cause}"))
        })?;
        if config.get_hosts().is_empty() {
            config.host("127.0.0.1");
        }
        if config.get_user().is_none() {
            return Err(invalid("the connection string names no user"));
        }
        config.keepalives_idle(KEEPALIVE_IDLE).tcp_user_timeout(UNTAKEN_MAX);
        if config.get_application_name().is_none() {
            config.application_name("millpond");
        }
        let trust = parts.trust()?;
        let roots = match parts.roots.as_deref() {
            Some("system") => system_roots(),
            Some(file) => roots_of(Path::new(file))?,
            None if trust == Trust::Anybody => RootCertStore::empty(),
            None => system_roots(),
        };
        let connecting = match (trust, parts.mode.as_deref()) {
            (Trust::Host, _) => "connecting with sslmode=verify-full",
            (Trust::Authority, Some("verify-ca")) => "connecting with sslmode=verify-ca",
            (Trust::Authority, _) => "connecting with sslmode=require and sslrootcert",
            (Trust::Anybody, Some("require")) => "connecting with sslmode=require",
            (Trust::Anybody, Some("disable")) => "connecting with sslmode=disable",
            (Trust::Anybody, _) => "connecting",
        };
        Ok(Self { config, tls: MakeRustlsConnect::new(client_config(trust, roots)?), connecting })
    }

    /// Of several hosts, the one that can be written to; a host that says nothing keeps nobody from the next for long.
    pub(crate) fn for_writing(mut self, connect_timeout: Duration) -> Self {
        let hosts = u32::try_from(self.hosts()).unwrap_or(u32::MAX);
        if hosts > 1 {
            if self.config.get_target_session_attrs() == TargetSessionAttrs::Any {
                self.config.target_session_attrs(TargetSessionAttrs::ReadWrite);
            }
            let each = self.config.get_connect_timeout().copied().unwrap_or(connect_timeout);
            self.config.connect_timeout(each.min(connect_timeout / hosts));
        }
        self
    }

    fn hosts(&self) -> usize {
        self.config.get_hosts().len().max(self.config.get_hostaddrs().len())
    }
}

/// A connection string without what only we read.
struct Parts {
    rest: String,
    mode: Option<String>,
    roots: Option<String>,
}

impl Parts {
    fn of(url: &str) -> Self {
        let is_url = url.starts_with("postgres://") || url.starts_with("postgresql://");
        let (base, pairs, separator) = if is_url {
            let (base, query) = url.split_once('?').unwrap_or((url, ""));
            (base, query.split('&').collect::<Vec<_>>(), '&')
        } else {
            ("", words(url), ' ')
        };
        let (mut kept, mut mode, mut roots) = (Vec::new(), None, None);
        for pair in pairs.into_iter().filter(|pair| !pair.is_empty()) {
            let value = |value: &str| {
                if is_url {
                    percent_decode_str(value).decode_utf8_lossy().into_owned()
                } else {
                    unquoted(value)
                }
            };
            match pair.split_once('=') {
                Some(("sslrootcert", file)) => roots = Some(value(file)),
                Some(("sslmode", given)) => {
                    let given = value(given);
                    // The driver knows nothing beyond `require`; what is asked beyond that is the verifier's part.
                    let known = match given.as_str() {
                        "verify-ca" | "verify-full" => "require",
                        "allow" => "prefer",
                        given => given,
                    };
                    kept.push(format!("sslmode={known}"));
                    mode = Some(given);
                }
                _ => kept.push(pair.to_owned()),
            }
        }
        // As libpq does: who asks the public authorities, whom anybody can get a certificate from, wants the name looked at.
        if mode.is_none() && roots.as_deref() == Some("system") {
            kept.push("sslmode=require".to_owned());
            mode = Some("verify-full".to_owned());
        }
        let kept = kept.join(&separator.to_string());
        let rest = match (is_url, kept.is_empty()) {
            (true, true) => base.to_owned(),
            (true, false) => format!("{base}?{kept}"),
            (false, _) => kept,
        };
        Self { rest, mode, roots }
    }

    fn trust(&self) -> Result<Trust, StoreError> {
        match (self.mode.as_deref(), self.roots.as_deref()) {
            (Some("verify-full"), _) => Ok(Trust::Host),
            (Some("disable"), _) => Ok(Trust::Anybody),
            (Some(mode), Some("system")) => Err(invalid(&format!(
                "sslmode={mode} is too weak for sslrootcert=system, whose authorities anybody can ask: use verify-full"
            ))),
            (Some("verify-ca"), _) => Ok(Trust::Authority),
            // As libpq does: who names authorities wants them asked.
            (Some("require"), Some(_)) => Ok(Trust::Authority),
            _ => Ok(Trust::Anybody),
        }
    }
}

/// The words of a connection string that is no URL; what stands in quotes is of one word.
fn words(text: &str) -> Vec<&str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let ends = move |letter: char| {
        if is_escaped {
            is_escaped = false;
            return false;
        }
        is_escaped = letter == '\\';
        is_quoted ^= letter == '\'';
        !is_quoted && letter.is_whitespace()
    };
    text.split(ends).filter(|word| !word.is_empty()).collect()
}

/// A value without its quotes.
fn unquoted(value: &str) -> String {
    let inner = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).unwrap_or(value);
    let (mut plain, mut letters) = (String::new(), inner.chars());
    while let Some(letter) = letters.next() {
        plain.extend(if letter == '\\' { letters.next() } else { Some(letter) });
    }
    plain
}

fn invalid(what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, what)
}

fn system_roots() -> RootCertStore {
    RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }
}

fn roots_of(file: &Path) -> Result<RootCertStore, StoreError> {
    let mut roots = RootCertStore::empty();
    let unreadable = |error: &dyn std::fmt::Display| {
        invalid(&format!("sslrootcert {} cannot be read: {error}", file.display()))
    };
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unreadable(&error))? {
        let certificate = certificate.map_err(|error| unreadable(&error))?;
        roots.add(certificate).map_err(|error| unreadable(&error))?;
    }
    if roots.is_empty() {
        return Err(unreadable(&"it holds no certificate"));
    }
    Ok(roots)
}

fn client_config(trust: Trust, roots: RootCertStore) -> Result<ClientConfig, StoreError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| invalid(&format!("TLS cannot be set up: {error}")))?;
    if trust == Trust::Host {
        return Ok(builder.with_root_certificates(roots).with_no_client_auth());
    }
    let authorities = match trust {
        Trust::Anybody => None,
        _ => {
            let verifier =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
            Some(verifier.build().map_err(|error| invalid(&format!("TLS cannot be set up: {error}")))?)
        }
    };
    let verifier = Arc::new(Lenient { authorities, provider });
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// Asks less of a certificate than that it is the host's, as `sslmode` says.
#[derive(Debug)]
struct Lenient {
    /// `None`: any certificate will do.
    authorities: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(authorities) = &self.authorities else { return Ok(ServerCertVerified::assertion()) };
        match authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is looked at last: all else was in order.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            cert,
            dss,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            cert,
            dss,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_we_read_is_taken_out_of_the_connection_string() {
        let parts =
            Parts::of("postgres://u:p@h:1/d?sslmode=verify-full&sslrootcert=%2Fa%20b&application_name=x");
        assert_eq!(parts.rest, "postgres://u:p@h:1/d?sslmode=require&application_name=x");
        assert_eq!((parts.mode.as_deref(), parts.roots.as_deref()), (Some("verify-full"), Some("/a b")));
        let parts = Parts::of("host=h user=u sslrootcert=system sslmode=disable");
        assert_eq!(parts.rest, "host=h user=u sslmode=disable");
        assert_eq!((parts.mode.as_deref(), parts.roots.as_deref()), (Some("disable"), Some("system")));
        assert_eq!(Parts::of("postgres://h/d").rest, "postgres://h/d");
    }

    #[test]
    fn no_spelling_of_a_setting_makes_it_weaker() {
        let trust = |url: &str| Target::parse(url).and_then(|_| Parts::of(url).trust());
        for (url, asked) in [
            ("postgres://u@h/d?sslmode=verify%2Dfull", Trust::Host),
            ("host=h user=u sslmode='verify-full'", Trust::Host),
            ("host=h user=u sslmode='verify-ca' password='a  b\\' c'", Trust::Authority),
            ("postgres://u@h/d?sslrootcert=system", Trust::Host),
            ("postgres://u@h/d?sslmode=allow", Trust::Anybody),
        ] {
            assert_eq!(trust(url).ok(), Some(asked), "{url}");
        }
        for url in [
            "postgres://u:secret@h/d?sslmode=verify-ful",
            "postgres://u:secret@h/d?sslmode=require&sslrootcert=system",
        ] {
            let error = trust(url).expect_err(url).to_string();
            assert!(error.contains("sslmode") && !error.contains("secret"), "{error}");
        }
        for name in ["sslcert", "sslkey", "sslcrl"] {
            let refused = trust(&format!("postgres://u:secret@h/d?{name}=/file"));
            let error = refused.expect_err(name).to_string();
            assert!(error.contains(name) && !error.contains("secret"), "{error}");
        }
        let config =
            Target::parse("host=h user=u password='a  b'").expect("it is a connection string").config;
        assert_eq!(config.get_password(), Some(&b"a  b"[..]));
    }

    #[test]
    fn of_several_hosts_one_that_can_be_written_to_is_looked_for_in_the_time_for_one() {
        let long = Duration::from_secs(5);
        let parsed = |url| Target::parse(url).expect("it is a connection string").for_writing(long).config;
        let several = parsed("host=a,b port=1,2 user=u");
        assert_eq!(several.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        assert_eq!(several.get_connect_timeout(), Some(&(long / 2)));
        assert_eq!(parsed("host=a user=u").get_connect_timeout(), None, "one has all of it");
        let own = parsed("host=a,b,c user=u connect_timeout=1 target_session_attrs=read-only");
        assert_eq!(own.get_target_session_attrs(), TargetSessionAttrs::ReadOnly);
        assert_eq!(own.get_connect_timeout(), Some(&Duration::from_secs(1)));
    }

    #[test]
    fn what_cannot_be_read_is_refused_without_the_password() {
        for url in ["", "postgres://h/d", "http://u@h/d", "postgres://u:secret@h:port/d", "host=h user"] {
            let refused = Target::parse(url).map(drop);
            let error = refused.expect_err(url);
            assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
        }
        let target = Target::parse("postgres://u:secret@h/d").expect("it is a connection string");
        assert!(!format!("{target:?}").contains("secret"));
        let missing = Target::parse("postgres://u@h/d?sslrootcert=/not/there").map(drop);
        assert!(missing.expect_err("there is no such file").to_string().contains("/not/there"));
    }
}
