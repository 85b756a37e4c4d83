//! Dead letters: the parameters of a list, replay and redrive.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_api::dead_letters::{ListDeadLettersRequest, RedriveRequest, ReplayRequest, Selection};
use millpond_api::limits;
use millpond_api::name::QueueName;

fuzz_target!(|input: &[u8]| {
    let selections = [
        ReplayRequest::parse(input).map(|request| request.selection),
        RedriveRequest::parse(input).map(|request| request.selection),
    ];
    for selection in selections.into_iter().flatten() {
        let Selection::Messages(ids) = selection else { continue };
        assert!((1..=limits::MESSAGE_IDS_PER_CALL_MAX).contains(&ids.len()));
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    let queue = QueueName::parse("queue", "orgs/a/projects/b/envs/c/queues/d").expect("valid");
    let mut values = text.split('\n');
    let names = millpond_api::dead_letters::DEAD_LETTERS_PARAMETERS;
    let given: Vec<_> = names.iter().map(|name| (*name, values.next())).collect();
    let find = |name: &str| given.iter().find(|(own, _)| *own == name).and_then(|(_, value)| *value);
    if let Ok(list) = ListDeadLettersRequest::parse(&queue, find) {
        assert!((1..=limits::DEAD_LETTERS_PAGE_MAX).contains(&list.page_size));
        if let Some(after) = list.after.as_deref() {
            assert_eq!(Some(list.token_after(after).as_str()), find("page_token"));
        }
    }
});
