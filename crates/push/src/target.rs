//! Where pushes go: addresses that an operator allows, and URLs.
//!
//! Invariant: an address is judged as the machine would connect to it, so a mapped IPv6 address (`::ffff:10.0.0.1`) as the
//! IPv4 address that it stands for. Whatever a URL spells otherwise (`0x7f.1`, names) is a name, and judged by what it
//! resolves to.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hyper::Uri;
use hyper::http::uri::Scheme;
use ipnet::{IpNet, Ipv4Net};
use millpond_api::Fault;

/// Networks that pushes may go to unless told: the machine itself.
pub const ALLOWED_DEFAULT: [&str; 2] = ["127.0.0.0/8", "::1/128"];
/// Entries of an allow-list.
pub const ALLOWED_MAX: usize = 1_000;
/// Bytes of a target.
pub const TARGET_BYTES_MAX: usize = 2_048;

/// Bytes of a host name, which DNS sets.
const NAME_BYTES_MAX: usize = 253;
/// Bits that a mapped IPv6 address begins with before the IPv4 address.
const MAPPED_BITS: u8 = 96;

/// Networks that pushes may go to. An IPv6 network never stands for IPv4 addresses, not even `::/0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowList {
    networks: Vec<IpNet>,
}

impl Default for AllowList {
    fn default() -> Self {
        let networks = ALLOWED_DEFAULT.iter().map(|entry| entry.parse().expect("a constant is a network"));
        Self { networks: networks.collect() }
    }
}

impl AllowList {
    /// Reads addresses and networks (`10.0.0.7`, `10.0.0.0/8`, `fd00::/8`). Without any, nothing is allowed. The error is that of
    /// the first entry that is none, with the entry itself.
    pub fn parse<'e>(entries: impl IntoIterator<Item = &'e str>) -> Result<Self, (&'e str, Fault)> {
        let mut networks = Vec::new();
        for entry in entries {
            if networks.len() == ALLOWED_MAX {
                return Err((entry, Fault::beyond(ALLOWED_MAX, format!("at most {ALLOWED_MAX} networks"))));
            }
            networks.push(parse_network(entry).map_err(|fault| (entry, fault))?);
        }
        Ok(Self { networks })
    }

    /// Whether pushes may go to this address.
    #[must_use]
    pub fn allows(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.contains(&address))
    }

    /// Refuses a target whose host is an address that is not allowed. What a name stands for is judged at each connection.
    pub fn check_literal(&self, target: &Target) -> Result<(), Fault> {
        match target.host {
            Host::Address(address) if !self.allows(address) => Err(Fault::beyond(
                self,
                format!("a host within the networks that this server may push to ({self})"),
            )),
            Host::Address(_) | Host::Name(_) => Ok(()),
        }
    }

    /// Those of these addresses that are allowed, in their order, and the others.
    #[must_use]
    pub fn divide(&self, addresses: Vec<SocketAddr>) -> Addresses {
        let (allowed, refused) = addresses.into_iter().partition(|address| self.allows(address.ip()));
        Addresses { allowed, refused }
    }

    /// Looks a target's host up, if it is a name, and says which of its addresses are allowed.
    pub async fn resolve(&self, target: &Target) -> io::Result<Addresses> {
        let addresses = match &target.host {
            Host::Address(address) => vec![SocketAddr::new(*address, target.port())],
            Host::Name(name) => tokio::net::lookup_host((name.as_str(), target.port())).await?.collect(),
        };
        Ok(self.divide(addresses))
    }
}

impl fmt::Display for AllowList {
    /// The networks, as many as a message can take.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        if self.networks.is_empty() {
            return formatter.write_str("none");
        }
        for (at, network) in self.networks.iter().take(SHOWN).enumerate() {
            write!(formatter, "{}{network}", if at == 0 { "" } else { ", " })?;
        }
        match self.networks.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(formatter, " and {more} more"),
        }
    }
}

/// What a target's host stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Connections may be made to these.
    pub allowed: Vec<SocketAddr>,
    /// And not to these.
    pub refused: Vec<SocketAddr>,
}

fn parse_network(entry: &str) -> Result<IpNet, Fault> {
    let address = entry.parse::<IpAddr>().map(IpNet::from);
    let network = address.or_else(|_| entry.parse::<IpNet>());
    let network = network.map_err(|_| Fault::new("an address or a network like 10.0.0.0/8"))?;
    if network.trunc() != network {
        return Err(Fault::new(format!("no bits behind the prefix, as in {}", network.trunc())));
    }
    Ok(match network {
        IpNet::V6(wide) if wide.prefix_len() >= MAPPED_BITS => match wide.network().to_ipv4_mapped() {
            Some(address) => {
                let bits = wide.prefix_len() - MAPPED_BITS;
                Ipv4Net::new(address, bits).map_or(network, IpNet::V4)
            }
            None => network,
        },
        IpNet::V4(_) | IpNet::V6(_) => network,
    })
}

/// The URL that pushes of a trigger go to: `http` or `https`, a host, a path and a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    uri: Uri,
    host: Host,
}

/// The host of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// An address as such.
    Address(IpAddr),
    /// A name to look up.
    Name(String),
}

impl Host {
    /// Reads a host as it stands in a URL, an IPv6 address in brackets.
    fn parse(text: &str) -> Result<Self, Fault> {
        if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let address = inner.parse::<Ipv6Addr>();
            return address
                .map(|address| Self::Address(address.into()))
                .map_err(|_| Fault::new("an ipv6 address in the brackets"));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        if text.is_empty() {
            return Err(Fault::new("a url with a host"));
        }
        if text.len() > NAME_BYTES_MAX {
            let expected = format!("a host of at most {NAME_BYTES_MAX} bytes");
            return Err(Fault::beyond(NAME_BYTES_MAX, expected));
        }
        if text.bytes().any(|byte| !byte.is_ascii_alphanumeric() && !b"-._".contains(&byte)) {
            return Err(Fault::new("a host of letters, digits, hyphens, dots and underscores"));
        }
        Ok(Self::Name(text.to_owned()))
    }
}

impl Target {
    /// Reads a URL.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        if text.len() > TARGET_BYTES_MAX {
            let expected = format!("a url of at most {TARGET_BYTES_MAX} bytes");
            return Err(Fault::beyond(TARGET_BYTES_MAX, expected));
        }
        // The parser would take a fragment off without a word, and takes what is not ASCII in paths.
        if text.contains('#') {
            return Err(Fault::new("a url without a fragment"));
        }
        if !text.bytes().all(|byte| (0x21..0x7f).contains(&byte)) {
            return Err(Fault::new("a url of printable ascii characters, others percent-encoded"));
        }
        let uri: Uri = text.parse().map_err(|_| Fault::new("a url like http://127.0.0.1:3000/push"))?;
        Self::of_uri(uri)
    }

    /// The target that this stands for, which has to be one of [`Target::parse`] or a part of it.
    pub(crate) fn of_uri(uri: Uri) -> Result<Self, Fault> {
        if uri.scheme() != Some(&Scheme::HTTP) && uri.scheme() != Some(&Scheme::HTTPS) {
            return Err(Fault::new("a url that begins with http:// or https://"));
        }
        let authority = uri.authority().ok_or_else(|| Fault::new("a url with a host"))?;
        if authority.as_str().contains('@') {
            return Err(Fault::new("a url without a user or a password"));
        }
        let host = Host::parse(authority.host())?;
        let port = &authority.as_str()[authority.host().len()..];
        let port_is_legal = match port.strip_prefix(':') {
            Some(digits) => digits.parse().is_ok_and(|port: u16| port > 0),
            None => port.is_empty(),
        };
        if !port_is_legal {
            return Err(Fault::new("a port from 1 to 65535"));
        }
        Ok(Self { uri, host })
    }

    /// The host.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port, given or the scheme's own.
    #[must_use]
    pub fn port(&self) -> u16 {
        let by_scheme = if self.is_https() { 443 } else { 80 };
        self.uri.port_u16().unwrap_or(by_scheme)
    }

    /// Whether calls are encrypted.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.uri.scheme() == Some(&Scheme::HTTPS)
    }

    /// For requests.
    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.uri.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn allow(entries: &[&'static str]) -> AllowList {
        AllowList::parse(entries.iter().copied()).expect("networks")
    }

    fn target(text: &str) -> Target {
        Target::parse(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}"))
    }

    #[test]
    fn only_the_machine_itself_is_allowed_unless_told() {
        let list = AllowList::default();
        for address in ["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1"] {
            assert!(list.allows(address.parse().expect("an address")), "{address}");
        }
        for address in ["0.0.0.0", "::", "10.0.0.1", "169.254.169.254", "128.0.0.1", "::2", "::ffff:10.0.0.1"]
        {
            assert!(!list.allows(address.parse().expect("an address")), "{address}");
        }
    }

    #[test]
    fn networks_and_addresses_are_entries_and_mapped_ones_are_ipv4() {
        let list = allow(&["10.1.2.0/24", "192.0.2.7", "fd00::/8", "::ffff:198.51.100.0/120"]);
        for address in ["10.1.2.255", "::ffff:10.1.2.3", "192.0.2.7", "fdff::1", "198.51.100.9"] {
            assert!(list.allows(address.parse().expect("an address")), "{address}");
        }
        for address in ["10.1.3.0", "192.0.2.8", "fe80::1", "198.51.101.1", "127.0.0.1"] {
            assert!(!list.allows(address.parse().expect("an address")), "{address}");
        }
        assert!(!allow(&["::/0"]).allows("10.0.0.1".parse().expect("an address")));
        assert!(!allow(&["::/0"]).allows("::ffff:10.0.0.1".parse().expect("an address")));
        assert!(!allow(&[]).allows("127.0.0.1".parse().expect("an address")));
    }

    #[test]
    fn an_entry_that_is_no_network_is_named() {
        for entry in ["", "localhost", "10.0.0.0/33", "10.0.0/8", "10.0.0.1:80", "[::1]", " 10.0.0.1"] {
            let (named, fault) = AllowList::parse(["127.0.0.1", entry]).expect_err(entry);
            assert_eq!(named, entry);
            assert_eq!(fault, Fault::new("an address or a network like 10.0.0.0/8"));
        }
        let (named, fault) = AllowList::parse(["10.0.0.1/8"]).expect_err("bits behind the prefix");
        assert_eq!(
            (named, fault.expected.as_str()),
            ("10.0.0.1/8", "no bits behind the prefix, as in 10.0.0.0/8")
        );
        let many = vec!["10.0.0.1"; ALLOWED_MAX + 1];
        assert_eq!(AllowList::parse(many).expect_err("too many").1.limit.as_deref(), Some("1000"));
    }

    #[test]
    fn a_url_of_http_with_a_host_is_a_target() {
        for (url, host, port, https) in [
            ("http://127.0.0.1:3000/push?x=1", "127.0.0.1", 3_000, false),
            ("https://example.com", "example.com", 443, true),
            ("HTTP://Example.com/a%20b", "Example.com", 80, false),
            ("http://[::1]:8080/", "::1", 8_080, false),
            ("http://under_score.internal/", "under_score.internal", 80, false),
            ("http://0x7f.1/", "0x7f.1", 80, false),
        ] {
            let target = target(url);
            let shown = match target.host() {
                Host::Address(address) => address.to_string(),
                Host::Name(name) => name.clone(),
            };
            assert_eq!((shown.as_str(), target.port(), target.is_https()), (host, port, https), "{url}");
        }
    }

    #[test]
    fn what_is_no_target_is_refused_by_what_it_lacks() {
        for (url, expected) in [
            ("", "a url like"),
            ("/push", "begins with http"),
            ("example.com", "begins with http"),
            ("ftp://example.com/", "begins with http"),
            ("file:///etc/passwd", "a url like"),
            ("http://", "a url like"),
            ("http:///push", "a url like"),
            ("http://:80/", "a host"),
            ("http://user@example.com/", "without a user"),
            ("http://user:secret@example.com/", "without a user"),
            ("http://@127.0.0.1/", "without a user"),
            ("http://example.com/#top", "without a fragment"),
            ("http://example.com/ a", "printable ascii"),
            ("http://example.com/é", "printable ascii"),
            ("http://exämple.com/", "printable ascii"),
            ("http://example.com/\r\nx: y", "printable ascii"),
            ("http://example.com:0/", "a port from 1"),
            ("http://example.com:/", "a port from 1"),
            ("http://example.com:65536/", "a port from 1"),
            ("http://exa$mple.com/", "letters, digits"),
            ("http://[fe80::1%251]/", "an ipv6 address"),
            ("http://[127.0.0.1]/", "an ipv6 address"),
        ] {
            let fault = Target::parse(url).expect_err(url);
            assert!(fault.expected.contains(expected), "{url}: {}", fault.expected);
        }
    }

    #[test]
    fn a_target_has_2048_bytes_and_its_host_253() {
        let url = |bytes: usize| format!("http://h/{}", "a".repeat(bytes - "http://h/".len()));
        assert!(Target::parse(&url(TARGET_BYTES_MAX)).is_ok());
        let fault = Target::parse(&url(TARGET_BYTES_MAX + 1)).expect_err("too long");
        assert_eq!(fault.limit.as_deref(), Some("2048"));
        assert!(Target::parse(&format!("http://{}/", "a".repeat(NAME_BYTES_MAX))).is_ok());
        let fault =
            Target::parse(&format!("http://{}/", "a".repeat(NAME_BYTES_MAX + 1))).expect_err("too long");
        assert_eq!(fault.limit.as_deref(), Some("253"));
    }

    #[test]
    fn a_literal_address_is_checked_when_it_is_given_and_a_name_later() {
        let list = AllowList::default();
        for url in ["http://127.0.0.1/", "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://example.com/"]
        {
            assert_eq!(list.check_literal(&target(url)), Ok(()), "{url}");
        }
        for url in ["http://10.0.0.1/", "https://[fd00::1]/", "http://[::ffff:10.0.0.1]/", "http://0.0.0.0/"]
        {
            let fault = list.check_literal(&target(url)).expect_err(url);
            let error = fault.at("target", url).detail;
            let end =
                "expected a host within the networks that this server may push to (127.0.0.0/8, ::1/128)";
            assert_eq!(error, format!("target is {url}, {end}"));
        }
        let many: Vec<String> = (0..10).map(|at| format!("10.0.{at}.0/24")).collect();
        let shown = AllowList::parse(many.iter().map(String::as_str)).expect("networks").to_string();
        assert!(shown.ends_with("10.0.7.0/24 and 2 more"), "{shown}");
        assert_eq!(allow(&[]).to_string(), "none");
    }

    #[tokio::test]
    async fn what_a_host_stands_for_is_divided() {
        let list = allow(&["127.0.0.2"]);
        let found = list.resolve(&target("http://127.0.0.1:81/")).await.expect("no lookup");
        assert_eq!(
            (found.allowed.len(), found.refused),
            (0, vec!["127.0.0.1:81".parse().expect("an address")])
        );
        let found = list.resolve(&target("http://localhost:81/")).await.expect("every machine has this name");
        assert!(found.allowed.is_empty() && !found.refused.is_empty(), "{found:?}");
        let found = AllowList::default().resolve(&target("https://localhost")).await.expect("as before");
        assert!(found.refused.is_empty() && found.allowed.iter().all(|address| address.port() == 443));
        // The resolver reads old spellings of addresses; they are judged by what it makes of them.
        let found = AllowList::default().resolve(&target("http://0x0a.1/")).await.unwrap_or_default();
        assert!(found.allowed.is_empty(), "{found:?}");
    }

    proptest! {
        #[test]
        fn any_text_is_a_target_or_refused(text: String) {
            if let Ok(target) = Target::parse(&text) {
                prop_assert_eq!(Target::parse(&target.to_string()), Ok(target));
            }
        }

        #[test]
        fn a_mapped_address_is_judged_as_the_one_it_stands_for(bits: u32, network: u32, length in 0u8..=32) {
            let network = Ipv4Net::new(Ipv4Addr::from(network), length).expect("a length").trunc().to_string();
            let list = AllowList::parse([network.as_str()]).expect("a network");
            let address = Ipv4Addr::from(bits);
            prop_assert_eq!(list.allows(address.into()), list.allows(address.to_ipv6_mapped().into()));
        }
    }
}
