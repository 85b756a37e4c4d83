//! The `filter` of a list of queues: a small part of AIP-160.
//!
//! ```text
//! filter  = term { AND term }
//! term    = ( "name" | "labels." KEY ) ( "=" | "!=" ) value
//!         | "labels." KEY ":" "*"
//!         | "paused" ( "=" | "!=" ) ( "true" | "false" )
//! value   = word | '"' characters, \" and \\ '"'
//! ```
//!
//! A value that ends with `*` means all that begin so, in quotes too. A name is compared with the queue's id, or with its
//! whole name where the value holds a slash. A label that is not there is unlike every value. There is no `OR`, no `NOT`, no
//! parentheses: whoever needs them lists and chooses.

use std::collections::BTreeMap;

use crate::input_error::{Fault, InputError};
use crate::limits::{FILTER_BYTES_MAX, FILTER_TERMS_MAX, LABEL_KEY_BYTES_MAX};
use crate::name::ResourceName;
use crate::queue::check_key;

const FIELD: &str = "filter";

/// Chooses queues. The default takes all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueFilter {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Term {
    HasLabel(String),
    Label { key: String, pattern: Pattern, like: bool },
    Name { pattern: Pattern, like: bool },
    Paused(bool),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    text: String,
    /// The text is how it begins.
    open: bool,
}

impl Pattern {
    fn of(value: String) -> Self {
        match value.strip_suffix('*') {
            Some(start) => Self { text: start.to_owned(), open: true },
            None => Self { text: value, open: false },
        }
    }

    fn takes(&self, text: &str) -> bool {
        if self.open { text.starts_with(&self.text) } else { text == self.text }
    }
}

impl QueueFilter {
    /// Reads a filter. Nothing but spaces takes all.
    pub fn parse(text: &str) -> Result<QueueFilter, InputError> {
        if text.len() > FILTER_BYTES_MAX {
            let fault = Fault::beyond(FILTER_BYTES_MAX, format!("at most {FILTER_BYTES_MAX} bytes"));
            return Err(fault.at(FIELD, text));
        }
        let mut scanner = Scanner { text, rest: text.trim_start() };
        let mut terms = Vec::new();
        while !scanner.rest.is_empty() {
            if !terms.is_empty() {
                scanner.and()?;
            }
            if terms.len() == FILTER_TERMS_MAX {
                let fault = Fault::beyond(FILTER_TERMS_MAX, format!("at most {FILTER_TERMS_MAX} terms"));
                return Err(fault.at(FIELD, text));
            }
            terms.push(scanner.term()?);
        }
        Ok(QueueFilter { terms })
    }

    /// Whether every queue is taken.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether this queue is taken.
    pub fn takes(&self, name: &ResourceName, labels: &BTreeMap<String, String>, paused: bool) -> bool {
        self.terms.iter().all(|term| match term {
            Term::HasLabel(key) => labels.contains_key(key),
            Term::Label { key, pattern, like } => {
                labels.get(key).is_some_and(|value| pattern.takes(value)) == *like
            }
            Term::Name { pattern, like } => {
                let whole = pattern.text.contains('/');
                let taken = if whole { pattern.takes(&name.to_string()) } else { pattern.takes(name.id()) };
                taken == *like
            }
            Term::Paused(wanted) => paused == *wanted,
        })
    }
}

/// What is left of a filter.
struct Scanner<'f> {
    text: &'f str,
    rest: &'f str,
}

impl<'f> Scanner<'f> {
    fn refuse(&self, expected: &str) -> InputError {
        let character = self.text[..self.text.len() - self.rest.len()].chars().count() + 1;
        Fault::new(format!("{expected} at character {character}")).at(FIELD, self.text)
    }

    /// Takes this text, and spaces behind it.
    fn eat(&mut self, token: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(token) else { return false };
        self.rest = rest.trim_start();
        true
    }

    fn and(&mut self) -> Result<(), InputError> {
        let before = self.rest;
        match self.word() {
            "AND" => Ok(()),
            _ => {
                self.rest = before;
                Err(self.refuse("AND"))
            }
        }
    }

    /// Letters, digits, and what names and labels hold besides; perhaps none.
    fn word(&mut self) -> &'f str {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '*');
        let end = self.rest.find(|c| !legal(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        word
    }

    fn term(&mut self) -> Result<Term, InputError> {
        let before = self.rest;
        let field = self.word();
        if let Some(key) = field.strip_prefix("labels.") {
            if check_key(key).is_err() {
                self.rest = before;
                return Err(
                    self.refuse(&format!("labels. and a key of 1 to {LABEL_KEY_BYTES_MAX} characters"))
                );
            }
            if self.eat(":") {
                let before = self.rest;
                if self.word() == "*" {
                    return Ok(Term::HasLabel(key.to_owned()));
                }
                self.rest = before;
                return Err(self.refuse("* behind the colon"));
            }
            let like = self.comparison()?;
            return Ok(Term::Label { key: key.to_owned(), pattern: Pattern::of(self.value()?), like });
        }
        match field {
            "name" => {
                let like = self.comparison()?;
                Ok(Term::Name { pattern: Pattern::of(self.value()?), like })
            }
            "paused" => {
                let like = self.comparison()?;
                let before = self.rest;
                match self.word() {
                    "true" => Ok(Term::Paused(like)),
                    "false" => Ok(Term::Paused(!like)),
                    _ => {
                        self.rest = before;
                        Err(self.refuse("true or false"))
                    }
                }
            }
            _ => {
                self.rest = before;
                Err(self.refuse("name, paused or labels.KEY"))
            }
        }
    }

    /// `true` for equal, `false` for unlike.
    fn comparison(&mut self) -> Result<bool, InputError> {
        if self.eat("!=") {
            return Ok(false);
        }
        if self.eat("=") { Ok(true) } else { Err(self.refuse("= or !=")) }
    }

    fn value(&mut self) -> Result<String, InputError> {
        if !self.rest.starts_with('"') {
            let word = self.word();
            return if word.is_empty() {
                Err(self.refuse("a value, in quotes if need be"))
            } else {
                Ok(word.to_owned())
            };
        }
        let mut value = String::new();
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.rest = self.rest[at + 1..].trim_start();
                    return Ok(value);
                }
                '\\' => match characters.next() {
                    Some((_, escaped @ ('"' | '\\'))) => value.push(escaped),
                    _ => return Err(self.refuse("only \\\" and \\\\ escaped in the value")),
                },
                other => value.push(other),
            }
        }
        Err(self.refuse("a value whose quotes are closed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::EnvironmentName;
    use proptest::prelude::*;

    fn name() -> ResourceName {
        let environment = EnvironmentName::new("acme", "shop", "prod").expect("valid");
        ResourceName::new(environment, "queues/mail-out").expect("valid")
    }

    fn takes(filter: &str) -> bool {
        let labels = BTreeMap::from([
            ("team".to_owned(), "a b\"c\\".to_owned()),
            ("x/y.z".to_owned(), "1".to_owned()),
            ("empty".to_owned(), String::new()),
        ]);
        QueueFilter::parse(filter).unwrap_or_else(|error| panic!("{error}")).takes(&name(), &labels, true)
    }

    #[test]
    fn terms_are_joined() {
        for filter in [
            "",
            "  ",
            "name = mail-out",
            "name=\"mail-out\"",
            "name = mail*",
            "name = \"mail*\"",
            "name = *",
            "name != mail",
            "name = orgs/acme/projects/shop/envs/prod/queues/mail-out",
            "name = orgs/acme/*",
            "paused = true",
            "paused!=false",
            "labels.team = \"a b\\\"c\\\\\"",
            "labels.team != a",
            "labels.team:*",
            "labels.empty = \"\"",
            "labels.empty : *",
            "labels.x/y.z = 1 AND labels.missing != 1 AND paused = true AND name = m*",
        ] {
            assert!(takes(filter), "{filter}");
        }
        for filter in [
            "name = mail",
            "name != mail-out",
            "name = Mail-out",
            "name = orgs/acme/projects/shop/envs/test/*",
            "paused = false",
            "paused != true",
            "labels.missing:*",
            "labels.missing = \"\"",
            "labels.x/y.z = 2",
            "name = mail-out AND paused = false",
        ] {
            assert!(!takes(filter), "{filter}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_place() {
        for (filter, expected) in [
            ("size = 1", "name, paused or labels.KEY at character 1"),
            ("=", "name, paused or labels.KEY at character 1"),
            ("name", "= or != at character 5"),
            ("name > a", "= or != at character 6"),
            ("name : *", "= or != at character 6"),
            ("name =", "a value, in quotes if need be at character 7"),
            ("name = (a)", "a value, in quotes if need be at character 8"),
            ("name = \"a", "a value whose quotes are closed at character 8"),
            (r#"name = "\n""#, "only \\\" and \\\\ escaped in the value at character 8"),
            ("paused = yes", "true or false at character 10"),
            ("paused", "= or != at character 7"),
            ("labels. = a", "labels. and a key of 1 to 63 characters at character 1"),
            ("labels.a:b", "* behind the colon at character 10"),
            ("name = a paused = true", "AND at character 10"),
            ("name = a and paused = true", "AND at character 10"),
            ("name = a OR name = b", "AND at character 10"),
            ("name = a AND", "name, paused or labels.KEY at character 13"),
            ("name = \"é\"x", "AND at character 11"),
        ] {
            match QueueFilter::parse(filter) {
                Ok(read) => panic!("{filter}: {read:?}"),
                Err(error) => {
                    assert_eq!(error.field.as_deref(), Some(FIELD));
                    assert!(
                        error.detail.ends_with(&format!("expected {expected}")),
                        "{filter}: {}",
                        error.detail
                    );
                }
            }
        }
    }

    #[test]
    fn a_filter_has_a_length_and_a_number_of_terms() {
        let long = |bytes: usize| format!("name = {}", "x".repeat(bytes - 7));
        assert!(QueueFilter::parse(&long(FILTER_BYTES_MAX)).is_ok());
        let error = QueueFilter::parse(&long(FILTER_BYTES_MAX + 1)).expect_err("too long");
        assert_eq!(error.limit.as_deref(), Some("1024"));
        let many = |terms: usize| vec!["paused = true"; terms].join(" AND ");
        assert!(QueueFilter::parse(&many(FILTER_TERMS_MAX)).is_ok());
        let error = QueueFilter::parse(&many(FILTER_TERMS_MAX + 1)).expect_err("too many");
        assert_eq!(error.limit.as_deref(), Some("16"));
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in ".{0,60}", likely in r#"(name|paused|labels\.a|=|!=|:|\*|"|\\|AND|true| |x){0,12}"#) {
            let _ = (QueueFilter::parse(&text), QueueFilter::parse(&likely));
        }

        #[test]
        fn any_label_can_be_asked_for(value in ".{0,20}") {
            let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
            let filter = QueueFilter::parse(&format!("labels.k = \"{quoted}\"")).expect("quoted");
            let labels = BTreeMap::from([("k".to_owned(), value)]);
            prop_assert!(filter.takes(&name(), &labels, false));
        }
    }
}
