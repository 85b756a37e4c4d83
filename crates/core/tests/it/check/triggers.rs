//! Triggers and secrets, from words and to words.

use std::collections::BTreeMap;

use millpond_core::Command;
use millpond_core::command::{NewTrigger, PutTriggers, SetSecret, TriggersOf, Trouble};
use millpond_core::id::Uid;
use millpond_core::outcome::TriggerView;
use millpond_core::row::SecretRow;
use millpond_core::spec::TriggerSpec;

use super::words::{Words, show as show_time, time};

/// `trigger x topic=t group=g` makes one; `deploy d x:t:g y:t:h` those of a deployment.
pub(super) fn command(words: &Words<'_>, uids: &BTreeMap<Box<str>, Uid>) -> Option<Command> {
    Some(match words.verb {
        "trigger" => {
            let new = new(words, words.bare[0], words.get("topic")?, words.get("group")?);
            put(words, None, vec![new])
        }
        "deploy" => {
            let parts = words.bare.iter().skip(1).map(|text| {
                let mut parts = text.split(':');
                let mut next = || parts.next().expect("id:topic:group");
                let (id, topic, group) = (next(), next(), next());
                new(words, id, topic, group)
            });
            put(words, Some(words.bare[0]), parts.collect())
        }
        "untrigger" => Command::DeleteTriggers(TriggersOf::Id(words.bare[0].into())),
        "undeploy" => Command::DeleteTriggers(TriggersOf::Deployment(words.bare[0].into())),
        "triggers" => Command::ListTriggers,
        "trouble" => Command::ReportTrigger {
            id: words.bare[0].into(),
            uid: uids.get(words.bare[0]).copied().unwrap_or_default(),
            trouble: words.get("since").map(|since| Trouble {
                since: time(since),
                error: words.get("error").unwrap_or("refused").into(),
                next_try: time(words.get("next").unwrap_or(since)),
            }),
        },
        "secret" => Command::SetSecret(SetSecret {
            secret: words.bare[0].into(),
            grace: words.time("grace").unwrap_or_default(),
            only_if_none: words.has("only"),
        }),
        _ => return None,
    })
}

fn put(words: &Words<'_>, deployment: Option<&str>, triggers: Vec<NewTrigger>) -> Command {
    let validate_only = words.get("only") == Some("check");
    Command::PutTriggers(PutTriggers { deployment: deployment.map(Into::into), triggers, validate_only })
}

fn new(words: &Words<'_>, id: &str, topic: &str, group: &str) -> NewTrigger {
    let default = TriggerSpec::default();
    NewTrigger {
        id: id.into(),
        topic: topic.into(),
        group: group.into(),
        target: words.get("target").unwrap_or("http://127.0.0.1:1").into(),
        spec: TriggerSpec {
            retry_after: words.time("retry").unwrap_or(default.retry_after),
            initial_delay: words.time("delay").unwrap_or_default(),
            max_deliveries: words.number("deliveries_max"),
            max_concurrency: words.number("concurrency"),
            dead_letter_queue: words.get("dead").map(Into::into),
            lease: words.time("lease").unwrap_or(default.lease),
        },
    }
}

/// What there is, in order.
pub(super) fn show(views: &[TriggerView]) -> String {
    let one = |view: &TriggerView| {
        let row = &view.trigger;
        let of = row.deployment.as_ref().map(|of| format!(" of {of}")).unwrap_or_default();
        let current = if view.current { " current" } else { "" };
        let trouble = view.trouble.as_ref().map(|trouble| format!(" {}", trouble.error)).unwrap_or_default();
        format!("{} {}>{}{of}{current}{trouble}", row.id, row.topic, row.group)
    };
    let all: Vec<_> = views.iter().map(one).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

pub(super) fn show_secret(secret: &SecretRow) -> String {
    let before = secret.previous.as_ref();
    let before = before.map(|(text, until)| format!(", {text} until={}", show_time(*until)));
    format!("{} since={}{}", secret.current, show_time(secret.since), before.unwrap_or_default())
}
