//! Who may ask at all (design-holes B17). There are no keys, so whatever reaches the port is obeyed; what a web page in
//! the operator's browser can send must not be.
//!
//! - `Host` must be a name of ours, else a page could have its own name resolve to this address and read the answers.
//!   Ports are not compared for loopback names: one forwarded from another port is still us.
//! - `Origin`, where a browser sends it, must be the very host that was asked.
//! - `Sec-Fetch-Site` must not say `cross-site`.
//!
//! That verbs take no other content type than JSON, `send` excepted, is seen to in `extract`.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Uri};
use millpond_api::ErrorCode;

use crate::error::ApiError;

/// The names under which the server may be asked.
#[derive(Clone, Debug)]
pub struct AllowedHosts {
    listen: IpAddr,
    further: Vec<String>,
}

impl AllowedHosts {
    /// The address listened on, loopback names, and `further` ones in lower case: with a port they have to be named
    /// with it, without one any port will do.
    pub fn new(listen: SocketAddr, further: Vec<String>) -> Self {
        Self { listen: listen.ip(), further }
    }

    /// Whether a request may name this host, given as `host` or `host:port`.
    fn allows(&self, host: &str) -> bool {
        let Some((name, port)) = split_port(host) else { return false };
        if port.is_some_and(|port| port.parse::<u16>().is_err()) {
            return false;
        }
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let is_ours = match bare.parse::<IpAddr>() {
            Ok(address) => address.is_loopback() || address == self.listen,
            Err(_) => name.eq_ignore_ascii_case("localhost"),
        };
        let named = |known: &String| known.eq_ignore_ascii_case(host) || known.eq_ignore_ascii_case(name);
        is_ours || self.further.iter().any(named)
    }
}

/// `host:port` or `[v6]:port`; none if brackets do not match.
fn split_port(host: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = host.strip_prefix('[') {
        let end = rest.find(']')? + 2;
        let (name, port) = host.split_at_checked(end)?;
        return match port.strip_prefix(':') {
            Some(port) => Some((name, Some(port))),
            None => port.is_empty().then_some((name, None)),
        };
    }
    match host.split_once(':') {
        Some((name, port)) => Some((name, Some(port))),
        None => Some((host, None)),
    }
}

/// Refuses what may not ask.
pub(crate) fn check(hosts: &AllowedHosts, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
    // A request line with a whole URI names the host there, and that one counts.
    let authority = uri.authority().map(|authority| authority.as_str());
    let mut named = headers.get_all(HOST).iter();
    let header = named.next().and_then(|value| value.to_str().ok());
    let host = authority.or(header).unwrap_or_default();
    if named.next().is_some() || !hosts.allows(host) {
        let detail = format!("host {host:?} is not one that this server answers for; allow-host adds it");
        return Err(ApiError::new(ErrorCode::HostNotAllowed, detail));
    }
    let cross_origin = |detail: String| Err(ApiError::new(ErrorCode::CrossOrigin, detail));
    for origin in headers.get_all(ORIGIN) {
        let text = origin.to_str().unwrap_or_default();
        let own = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        if !own.is_some_and(|own| own.eq_ignore_ascii_case(host)) {
            return cross_origin(format!("origin {text:?} is not {host:?}"));
        }
    }
    if headers.get_all("sec-fetch-site").iter().any(|site| site.as_bytes() == b"cross-site") {
        return cross_origin("sec-fetch-site is cross-site".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_ours_by_address_loopback_name_or_setting() {
        let further = vec!["queue.example.com".to_owned(), "proxy:8443".to_owned()];
        let hosts = AllowedHosts::new(SocketAddr::from(([127, 0, 0, 1], 8400)), further);
        for host in [
            "127.0.0.1:8400",
            "127.0.0.1",
            "localhost",
            "LOCALHOST:9000",
            "[::1]",
            "[::1]:8400",
            "queue.example.com",
            "Queue.Example.com:80",
            "proxy:8443",
        ] {
            assert!(hosts.allows(host), "{host}");
        }
        for host in [
            "",
            ":8400",
            "localhost.",
            "localhost:x",
            "localhost:",
            "localhost:8400:1",
            "localhost.example.com",
            "evil.example.com:8400",
            "10.0.0.1:8400",
            "0.0.0.0:8400",
            "[::1",
            "[::1]8400",
            "proxy",
            "proxy:8444",
            "user@localhost",
        ] {
            assert!(!hosts.allows(host), "{host}");
        }
    }

    #[test]
    fn an_origin_must_be_the_host_that_was_asked() {
        let hosts = AllowedHosts::new(SocketAddr::from(([127, 0, 0, 1], 8400)), Vec::new());
        let check = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, "localhost:8400".parse().expect("a header"));
            headers.insert(name, value.parse().expect("a header"));
            check(&hosts, &Uri::from_static("/"), &headers).map_err(|error| error.code())
        };
        assert_eq!(check("origin", "http://localhost:8400"), Ok(()));
        assert_eq!(check("sec-fetch-site", "same-origin"), Ok(()));
        assert_eq!(check("sec-fetch-site", "none"), Ok(()));
        for origin in ["null", "http://localhost:3000", "http://127.0.0.1:8400", "http://evil.example", ""] {
            assert_eq!(check("origin", origin), Err(ErrorCode::CrossOrigin), "{origin}");
        }
        assert_eq!(check("sec-fetch-site", "cross-site"), Err(ErrorCode::CrossOrigin));
    }
}
