//! Where the app answers: one address for everything, or one for each service.

use std::collections::BTreeMap;

use http::Uri;

use super::vercel_json::Service;
use crate::exit::{Failure, Outcome};

/// An address, and which service has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct App {
    service: Option<String>,
    url: String,
}

/// Reads `URL` or `SERVICE=URL`.
pub(super) fn app(text: &str) -> Result<App, String> {
    let is_url = |text: &str| text.starts_with("http://") || text.starts_with("https://");
    let (service, url) = match text.split_once('=') {
        Some((service, url)) if !is_url(text) => (Some(service.to_owned()), url),
        _ => (None, text),
    };
    let uri: Option<Uri> = url.parse().ok().filter(|_| is_url(url) && !url.contains(['#', '@', '?']));
    match uri {
        Some(uri) if uri.host().is_some_and(|host| !host.is_empty()) && service.as_deref() != Some("") => {
            Ok(App { service, url: url.trim_end_matches('/').to_owned() })
        }
        _ => Err(format!(
            "{text} is no address of an app, expected http://HOST:PORT or SERVICE=http://HOST:PORT"
        )),
    }
}

/// Reads the path of an address.
pub(super) fn path(text: &str) -> Result<String, String> {
    let is_path = text.starts_with('/') && !text.contains(['#', '?']) && text.parse::<Uri>().is_ok();
    if is_path {
        Ok(text.to_owned())
    } else {
        Err(format!("{text} is no path, expected one like /api/queue"))
    }
}

/// The addresses that were given.
#[derive(Debug)]
pub(super) struct Apps {
    plain: Option<String>,
    named: BTreeMap<String, String>,
}

impl Apps {
    /// Each service has one address at most, and is one of the project's.
    pub(super) fn of(apps: &[App], services: &[Service]) -> Outcome<Self> {
        let mut known = Self { plain: None, named: BTreeMap::new() };
        for App { service, url } in apps {
            let before = match service {
                None => known.plain.replace(url.clone()),
                Some(name) => known.named.insert(name.clone(), url.clone()),
            };
            if let Some(before) = before {
                let whose = service.as_deref().map_or_else(String::new, |name| format!("{name} has "));
                let why = format!("{whose}two addresses, {before} and {url}");
                return Err(Failure::usage("cannot use --app", why).advise("give one of them only"));
            }
        }
        let foreign = known.named.keys().find(|name| services.iter().all(|service| service.name != **name));
        if let Some(name) = foreign {
            let names: Vec<&str> = services.iter().map(|service| service.name.as_str()).collect();
            let advice = match names.is_empty() {
                true => "give --app URL: vercel.json has no services".to_owned(),
                false => format!("the services of vercel.json are {}", names.join(", ")),
            };
            let failure = Failure::usage("cannot use --app", format!("there is no service {name}"));
            return Err(failure.advise(advice));
        }
        Ok(known)
    }

    /// Where a path of the app, or of one of its services, is called.
    pub(super) fn target(&self, service: Option<&str>, path: &str) -> Outcome<String> {
        let own = service.and_then(|name| self.named.get(name));
        match own.or(self.plain.as_ref()) {
            Some(url) => Ok(format!("{url}{path}")),
            None => {
                let name = service.unwrap_or("the app");
                let failure = Failure::usage("cannot tell where to push", format!("{name} has no address"));
                let option = service.map_or_else(String::new, |name| format!("--app {name}=URL or "));
                Err(failure.advise(format!("give it one with {option}--app URL")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apps(texts: &[&str], services: &[&str]) -> Outcome<Apps> {
        let apps: Vec<App> = texts.iter().map(|text| app(text).expect("an address")).collect();
        let service = |name: &&str| Service { name: (*name).to_owned(), root: name.into() };
        Apps::of(&apps, &services.iter().map(service).collect::<Vec<_>>())
    }

    #[test]
    fn an_address_is_http_with_a_host_and_perhaps_a_path() {
        for (text, service, url) in [
            ("http://127.0.0.1:3000", None, "http://127.0.0.1:3000"),
            ("https://app.example/base/", None, "https://app.example/base"),
            ("http://[::1]:3000/", None, "http://[::1]:3000"),
            ("web=http://web:80", Some("web"), "http://web:80"),
            ("http://h/a=b", None, "http://h/a=b"),
        ] {
            let wanted = App { service: service.map(str::to_owned), url: url.to_owned() };
            assert_eq!(app(text), Ok(wanted), "{text}");
        }
        for text in [
            "",
            "127.0.0.1:3000",
            "ftp://h",
            "http://",
            "http://u:p@h",
            "http://h?x",
            "http://h#x",
            "=http://h",
            "web=",
            "http://h h",
        ] {
            assert!(app(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_path_begins_with_a_slash() {
        assert_eq!(path("/api/queue"), Ok("/api/queue".to_owned()));
        for text in ["", "api", "/a?b", "/a#b", "/a b"] {
            assert!(path(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_service_has_its_own_address_or_that_of_everything_else() {
        let known = apps(&["web=http://web", "http://rest"], &["web", "jobs"]).expect("addresses");
        let target = |service| known.target(service, "/x").expect("a target");
        assert_eq!(target(Some("web")), "http://web/x");
        assert_eq!([target(Some("jobs")), target(None)], ["http://rest/x", "http://rest/x"]);

        let known = apps(&["web=http://web"], &["web", "jobs"]).expect("addresses");
        let told = known.target(Some("jobs"), "/x").expect_err("no address").text();
        assert!(
            told.contains("jobs has no address") && told.contains("--app jobs=URL or --app URL"),
            "{told}"
        );
        let told = known.target(None, "/x").expect_err("no address").text();
        assert!(told.contains("the app has no address") && told.contains("with --app URL"), "{told}");
    }

    #[test]
    fn addresses_that_leave_a_doubt_are_refused() {
        for (given, services, wanted) in [
            (&["http://a", "http://b"][..], &[][..], "two addresses, http://a and http://b"),
            (&["web=http://a", "web=http://b"], &["web"], "web has two addresses, http://a and http://b"),
            (&["wep=http://a"], &["jobs", "web"], "there is no service wep"),
            (&["web=http://a"], &[], "vercel.json has no services"),
        ] {
            let told = apps(given, services).expect_err("refused").text();
            assert!(told.contains(wanted), "{told}");
        }
        let told = apps(&["wep=http://a"], &["jobs", "web"]).expect_err("refused").text();
        assert!(told.contains("the services of vercel.json are jobs, web"), "{told}");
    }
}
