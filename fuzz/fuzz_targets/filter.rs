//! The filter of a list of queues, and the other parameters of one.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use millpond_api::filter::QueueFilter;
use millpond_api::limits;
use millpond_api::name::{Kind, QueueName};
use millpond_api::queue::{LIST_PARAMETERS, ListQueuesRequest};

fuzz_target!(|text: &str| {
    let queue = QueueName::parse("queue", "orgs/a/projects/b/envs/c/queues/d").expect("valid");
    let labels = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
    if let Ok(filter) = QueueFilter::parse(text) {
        assert!(!filter.is_empty() || text.trim().is_empty());
        let _ = filter.takes(&queue.clone().into(), &labels, true);
    }
    let environment = queue.environment().to_string();
    let mut values = text.split('\n');
    let given: Vec<_> = LIST_PARAMETERS.iter().map(|name| (*name, values.next())).collect();
    let find = |name: &str| given.iter().find(|(own, _)| *own == name).and_then(|(_, value)| *value);
    if let Ok(list) = ListQueuesRequest::parse(Kind::Queue, &environment, find) {
        assert!((1..=limits::QUEUES_PAGE_MAX).contains(&list.page_size));
        if let Some(after) = list.after.as_deref() {
            assert_eq!(Some(list.token_after(after).as_str()), find("page_token"));
        }
    }
});
