//! A plan for people and for programs, beside what the server has for the deployment by now.

use serde_json::{Value, json};

use super::plan::{Plan, Trigger, seconds};
use crate::output::{Table, count_of};

/// The plan in a table, and in a sentence what holds for all of it.
pub(super) fn table(plan: &Plan, current: Option<&[Trigger]>) -> String {
    let mut header = vec!["GROUP", "TOPIC", "TARGET", "RETRY", "LIMITS"];
    header.extend(current.map(|_| "CHANGE"));
    let mut table = Table::new(&header);
    for planned in &plan.planned {
        let new = &planned.trigger;
        let old = current.and_then(|current| current.iter().find(|old| is_same(old, new)));
        let cell = |text: fn(&Trigger) -> String| match old.map(text) {
            Some(before) if before != text(new) => format!("{} (was {before})", text(new)),
            _ => text(new),
        };
        let names = [new.group.clone(), new.topic.clone()];
        let rest = [cell(target), cell(retry), cell(limits)];
        table.row(names.into_iter().chain(rest).chain(current.map(|_| change(old, new).to_owned())));
    }
    for old in removed(plan, current) {
        let cells = [old.group.clone(), old.topic.clone(), target(old), retry(old), limits(old)];
        table.row(cells.into_iter().chain(["removed".to_owned()]));
    }
    let count = count_of(plan.planned.len() as u64, "trigger");
    let lease = plan.planned.first().map_or_else(String::new, |one| seconds(one.trigger.lease));
    let queue = plan.planned.first().and_then(|one| one.trigger.dead_letter_queue.as_deref());
    let queue = queue.map_or_else(String::new, |queue| format!(", dead letters go to {queue}"));
    format!(
        "{}\n{count} for deployment {}; a push holds its message for {lease}{queue}",
        table.render(),
        plan.deployment
    )
}

/// The plan as one object: what is sent, where each trigger comes from, and what that changes.
pub(super) fn object(plan: &Plan, current: Option<&[Trigger]>, registered: bool) -> Value {
    let mut object = plan.request();
    for (number, planned) in plan.planned.iter().enumerate() {
        let trigger = &mut object["triggers"][number];
        trigger["source"] = json!(planned.source);
        if let Some(current) = current {
            let old = current.iter().find(|old| is_same(old, &planned.trigger));
            trigger["change"] = json!(change(old, &planned.trigger));
        }
    }
    object["deployment"] = json!(plan.deployment);
    object["registered"] = json!(registered);
    if current.is_some() {
        object["removed"] = removed(plan, current).map(Trigger::to_json).collect();
    }
    object
}

/// Triggers of the deployment that the plan leaves out.
fn removed<'a>(plan: &Plan, current: Option<&'a [Trigger]>) -> impl Iterator<Item = &'a Trigger> {
    let stays = |old: &&Trigger| plan.planned.iter().any(|planned| is_same(old, &planned.trigger));
    current.unwrap_or_default().iter().filter(move |old| !stays(old))
}

/// Whether one takes the place of the other.
fn is_same(old: &Trigger, new: &Trigger) -> bool {
    (&old.group, &old.topic) == (&new.group, &new.topic)
}

fn change(old: Option<&Trigger>, new: &Trigger) -> &'static str {
    match old {
        None => "new",
        Some(old) if old == new => "unchanged",
        Some(_) => "changed",
    }
}

fn target(trigger: &Trigger) -> String {
    trigger.target.clone()
}

fn retry(trigger: &Trigger) -> String {
    seconds(trigger.policy.retry_after)
}

fn limits(trigger: &Trigger) -> String {
    let policy = &trigger.policy;
    let parts = [
        policy
            .max_deliveries
            .map(|count| if count == 1 { "1 delivery".to_owned() } else { format!("{count} deliveries") }),
        policy.max_concurrency.map(|count| format!("{count} at once")),
        (!policy.initial_delay.is_zero()).then(|| format!("starts after {}", seconds(policy.initial_delay))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::plan::tests::planned;
    use super::*;

    fn plan() -> Plan {
        let mut second = planned("jobs", "user-*");
        second.trigger.policy.retry_after = Duration::from_millis(1_500);
        second.trigger.policy.max_deliveries = Some(5);
        second.trigger.policy.max_concurrency = Some(10);
        second.trigger.policy.initial_delay = Duration::from_secs(30);
        Plan::of("dpl_1", vec![planned("app_Sx_Dts", "orders"), second]).expect("a plan")
    }

    #[test]
    fn a_plan_is_shown_in_a_table() {
        assert_eq!(
            table(&plan(), None),
            "GROUP       TOPIC   TARGET                       RETRY  LIMITS\n\
             app_Sx_Dts  orders  http://127.0.0.1:3000/api/x  60s    none\n\
             jobs        user-*  http://127.0.0.1:3000/api/x  1.5s   5 deliveries, 10 at once, starts after 30s\n\
             2 triggers for deployment dpl_1; a push holds its message for 300s"
        );
    }

    /// What the server has: the first as it is, the second with other times and counts, and one more.
    fn current() -> Vec<Trigger> {
        let mut current: Vec<Trigger> = plan().planned.into_iter().map(|one| one.trigger).collect();
        current[1].policy.max_concurrency = None;
        current[1].policy.retry_after = Duration::from_secs(60);
        current.push(planned("old", "*").trigger);
        current
    }

    #[test]
    fn what_changes_is_shown_beside_what_was() {
        let mut plan = plan();
        plan.planned.push(planned("zoo", "z"));
        let shown = table(&plan, Some(&current()));
        let cells = |line: &str| {
            let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
            cells.collect::<Vec<_>>().join(" | ")
        };
        assert_eq!(
            shown.lines().map(cells).collect::<Vec<_>>(),
            [
                "GROUP | TOPIC | TARGET | RETRY | LIMITS | CHANGE",
                "app_Sx_Dts | orders | http://127.0.0.1:3000/api/x | 60s | none | unchanged",
                "jobs | user-* | http://127.0.0.1:3000/api/x | 1.5s (was 60s) | 5 deliveries, 10 at once, \
                 starts after 30s (was 5 deliveries, starts after 30s) | changed",
                "zoo | z | http://127.0.0.1:3000/api/x | 60s | none | new",
                "old | * | http://127.0.0.1:3000/api/x | 60s | none | removed",
                "3 triggers for deployment dpl_1; a push holds its message for 300s",
            ]
        );
    }

    #[test]
    fn programs_get_what_is_sent_and_what_it_changes() {
        let alone = object(&plan(), None, false);
        assert_eq!((&alone["deployment"], &alone["registered"]), (&json!("dpl_1"), &json!(false)));
        assert_eq!(alone["triggers"][0]["source"], "vercel.json: app_Sx_Dts");
        assert_eq!((alone.get("removed"), alone["triggers"][0].get("change")), (None, None));
        let compared = object(&plan(), Some(&current()), true);
        assert_eq!(compared["registered"], true);
        assert_eq!(compared["triggers"][1]["change"], "changed");
        assert_eq!(compared["removed"], json!([planned("old", "*").trigger.to_json()]));
    }

    #[test]
    fn a_queue_for_dead_letters_is_told() {
        let mut one = planned("a", "x");
        one.trigger.dead_letter_queue = Some("mail-dead".to_owned());
        one.trigger.policy.max_deliveries = Some(1);
        let plan = Plan::of("dpl_1", vec![one]).expect("a plan");
        let shown = table(&plan, None);
        assert!(shown.contains("  1 delivery\n1 trigger for deployment dpl_1;"), "{shown}");
        assert!(shown.ends_with("for 300s, dead letters go to mail-dead"), "{shown}");
    }
}
