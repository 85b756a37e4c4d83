//! Listing queues, topics, groups and partitions: the call, which stands in a query, and its page.

use super::Queue;
use crate::filter::QueueFilter;
use crate::input_error::{Fault, InputError};
use crate::limits::QUEUES_PAGE_MAX;
use crate::name::Kind;
use crate::page;
use crate::writer;

/// Names of the parameters.
pub const LIST_PARAMETERS: &[&str] = &["filter", "order_by", "page_size", "page_token"];

/// What a list of queues asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQueuesRequest {
    /// At most this many queues; there may be fewer on a page that is not the last.
    pub page_size: u32,
    /// The id that the page before ended with.
    pub after: Option<String>,
    /// Which queues.
    pub filter: QueueFilter,
    /// From the last name to the first.
    pub descending: bool,
    scope: [String; 3],
}

impl ListQueuesRequest {
    /// Reads the parameters of a list of what is of this kind in `parent`, an environment or a topic by its whole name.
    pub fn parse<'q>(
        kind: Kind,
        parent: &str,
        parameter: impl Fn(&str) -> Option<&'q str>,
    ) -> Result<ListQueuesRequest, InputError> {
        let (filter, order_by) =
            (parameter("filter").unwrap_or_default(), parameter("order_by").unwrap_or_default());
        let descending = read_order(order_by)?;
        let scope = [format!("{parent}/{}", kind.collection()), filter.to_owned(), descending.to_string()];
        let mut request = ListQueuesRequest {
            page_size: page::read_size(parameter("page_size"), QUEUES_PAGE_MAX)?,
            after: None,
            filter: QueueFilter::parse(filter)?,
            descending,
            scope,
        };
        if let Some(token) = parameter("page_token") {
            let id = page::read_token(&request.scope(), token)?;
            kind.check_id(&id).map_err(|_| page::refuse(token))?;
            request.after = Some(id);
        }
        Ok(request)
    }

    /// The token for the page behind the queue with this id.
    pub fn token_after(&self, id: &str) -> String {
        page::token(&self.scope(), id)
    }

    fn scope(&self) -> [&str; 3] {
        self.scope.each_ref().map(String::as_str)
    }
}

/// Whether an `order_by` is descending.
fn read_order(text: &str) -> Result<bool, InputError> {
    let mut words = text.split_ascii_whitespace();
    match (words.next(), words.next(), words.next()) {
        (None, ..) | (Some("name"), None, _) => Ok(false),
        (Some("name"), Some("desc"), None) => Ok(true),
        _ => Err(Fault::new("name or name desc").at("order_by", text)),
    }
}

/// The answer. An empty token says that there are no more.
pub fn render_queues(kind: Kind, queues: &[Queue], next_page_token: &str) -> String {
    let mut out = String::from("{");
    writer::push_name(&mut out, kind.collection());
    writer::push_list(&mut out, queues, |out, queue| out.push_str(&queue.render()));
    writer::push_text_field(&mut out, "next_page_token", next_page_token);
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;

    const HOME: &str = "orgs/acme/projects/shop/envs/prod";

    fn parse(parameters: &[(&str, &str)]) -> Result<ListQueuesRequest, InputError> {
        let find = |name: &str| parameters.iter().find(|(own, _)| *own == name).map(|(_, value)| *value);
        ListQueuesRequest::parse(Kind::Queue, HOME, find)
    }

    #[test]
    fn everything_has_a_default() {
        let request = parse(&[]).expect("valid");
        assert_eq!((request.page_size, request.after.as_deref(), request.descending), (50, None, false));
        assert!(request.filter.is_empty());
        assert_eq!(parse(&[("page_size", "1000")]).map(|request| request.page_size), Ok(1_000));
        assert_eq!(parse(&[("page_size", "1001")]).map(|request| request.page_size), Ok(1_000));
    }

    #[test]
    fn an_order_is_by_name() {
        for (text, descending) in [("", false), ("name", false), (" name ", false), ("name  desc", true)] {
            assert_eq!(parse(&[("order_by", text)]).map(|request| request.descending), Ok(descending));
        }
        for text in ["desc", "name asc", "name DESC", "name desc x", "create_time", "name,name"] {
            let error = parse(&[("order_by", text)]).expect_err(text);
            assert_eq!(error.field.as_deref(), Some("order_by"));
        }
    }

    #[test]
    fn a_token_goes_with_filter_order_and_environment() {
        let first = [("filter", "paused = true"), ("order_by", "name desc")];
        let token = parse(&first).expect("valid").token_after("mail");
        let next = [first[0], ("order_by", "name  desc"), ("page_size", "7"), ("page_token", token.as_str())];
        assert_eq!(parse(&next).expect("the same list").after.as_deref(), Some("mail"));
        for other in [
            vec![("page_token", token.as_str())],
            vec![first[0], ("page_token", token.as_str())],
            vec![first[1], ("page_token", token.as_str())],
            vec![("filter", "paused = false"), first[1], ("page_token", token.as_str())],
        ] {
            assert_eq!(parse(&other).map_err(|error| error.code), Err(ErrorCode::PageTokenInvalid));
        }
        let find = |name: &str| next.iter().find(|(own, _)| *own == name).map(|(_, value)| *value);
        assert!(ListQueuesRequest::parse(Kind::Queue, "orgs/acme/projects/shop/envs/test", find).is_err());
        assert!(ListQueuesRequest::parse(Kind::Topic, HOME, find).is_err());
    }

    #[test]
    fn a_token_that_holds_no_id_is_refused() {
        let token = parse(&[]).expect("valid").token_after("Not an id");
        assert_eq!(
            parse(&[("page_token", &token)]).map_err(|error| error.code),
            Err(ErrorCode::PageTokenInvalid)
        );
    }

    #[test]
    fn an_empty_page_has_an_empty_token() {
        assert_eq!(render_queues(Kind::Queue, &[], ""), r#"{"queues":[],"next_page_token":""}"#);
        assert_eq!(render_queues(Kind::Group, &[], ""), r#"{"groups":[],"next_page_token":""}"#);
    }
}
