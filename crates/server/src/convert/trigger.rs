//! Triggers and deployments: bodies to commands, views to answers.

use millpond_api::deployment::{self, Deployment};
use millpond_api::name::{EnvironmentName, QueueReference};
use millpond_api::push::{self, PushCounts, TriggerPushes};
use millpond_api::trigger::{Trigger, TriggerBody, TriggerState, TriggerTrouble};
use millpond_core::command::NewTrigger;
use millpond_core::outcome::TriggerView;
use millpond_core::spec::TriggerSpec;
use millpond_core::time::Timestamp;

use crate::convert::queue::queue_of;
use crate::error::ApiError;
use crate::pushes::{PushRecord, PushStatistics};

/// The trigger to be made. `path` is that of the body's fields: empty, or `triggers[n].`.
pub(crate) fn to_core(
    id: String,
    body: TriggerBody,
    path: &str,
    home: &EnvironmentName,
) -> Result<NewTrigger, ApiError> {
    let default = TriggerSpec::default();
    let queue =
        body.dead_letter_queue.map(|queue| queue_of(&format!("{path}dead_letter_queue"), &queue, home));
    Ok(NewTrigger {
        id: id.into(),
        topic: body.topic.into(),
        group: body.group.into(),
        target: body.target.into(),
        spec: TriggerSpec {
            retry_after: body.retry_after.unwrap_or(default.retry_after),
            initial_delay: body.initial_delay.unwrap_or(default.initial_delay),
            max_deliveries: body.max_deliveries.or(default.max_deliveries),
            max_concurrency: body.max_concurrency.or(default.max_concurrency),
            dead_letter_queue: queue.transpose()?,
            lease: body.visibility_timeout.unwrap_or(default.lease),
        },
    })
}

/// A trigger as it is at a time.
pub(crate) fn from_view(
    view: TriggerView,
    statistics: Option<PushStatistics>,
    home: &EnvironmentName,
    now: Timestamp,
) -> Trigger {
    let TriggerView { trigger: row, current, trouble } = view;
    let starts_at = row.starts_at();
    let state = match &trouble {
        Some(_) => TriggerState::Down,
        // The engine's time may be a little ahead of the clock.
        None if starts_at > now && !row.spec.initial_delay.is_zero() => TriggerState::Starting,
        None => TriggerState::Active,
    };
    let queue = row.spec.dead_letter_queue.map(|queue| QueueReference::Id(queue.into()).resolve(home));
    Trigger {
        name: format!("{home}/triggers/{}", row.id),
        trigger_id: row.id.into(),
        uid: row.uid.to_string(),
        deployment: row.deployment.map(Into::into),
        current,
        topic: row.topic.into(),
        group: row.group.into(),
        target: row.target.into(),
        retry_after: row.spec.retry_after,
        initial_delay: row.spec.initial_delay,
        max_deliveries: row.spec.max_deliveries,
        max_concurrency: row.spec.max_concurrency,
        dead_letter_queue: queue.map(|name| name.to_string()),
        visibility_timeout: row.spec.lease,
        starts_at: starts_at.as_millis(),
        create_time: row.created_at.as_millis(),
        state,
        trouble: trouble.map(|trouble| TriggerTrouble {
            since: trouble.since.as_millis(),
            error: trouble.error.into(),
            next_try: trouble.next_try.as_millis(),
        }),
        pushes: statistics.as_ref().map(counts),
    }
}

/// A deployment of these triggers, which are in their order.
pub(crate) fn deployment(id: &str, triggers: Vec<Trigger>, home: &EnvironmentName) -> Deployment {
    Deployment {
        name: format!("{home}/deployments/{id}"),
        deployment_id: id.to_owned(),
        current: triggers.iter().any(|trigger| trigger.current),
        create_time: triggers.iter().map(|trigger| trigger.create_time).max().unwrap_or(0),
        triggers,
    }
}

/// The triggers of a deployment to be made.
pub(crate) fn of_deployment(
    id: &str,
    bodies: Vec<TriggerBody>,
    home: &EnvironmentName,
) -> Result<Vec<NewTrigger>, ApiError> {
    let triggers = bodies.into_iter().enumerate();
    let trigger =
        |(at, body)| to_core(deployment::trigger_id(id, at + 1), body, &format!("triggers[{at}]."), home);
    triggers.map(trigger).collect()
}

/// What became of a trigger's pushes.
pub(crate) fn pushes(statistics: Option<PushStatistics>) -> TriggerPushes {
    let pushes = statistics.as_ref().map(counts);
    let last = statistics.map(|statistics| statistics.last).unwrap_or_default();
    TriggerPushes { pushes, last: last.into_iter().map(record).collect() }
}

fn counts(statistics: &PushStatistics) -> PushCounts {
    PushCounts {
        total: statistics.total,
        succeeded: statistics.succeeded,
        failed: statistics.failed,
        broken: statistics.broken,
        gave_up: statistics.gave_up,
        unreachable: statistics.unreachable,
        unwritable: statistics.unwritable,
        in_flight: statistics.in_flight,
        duration_p50_ms: statistics.duration_p50_ms,
        duration_p99_ms: statistics.duration_p99_ms,
    }
}

fn record(record: PushRecord) -> push::PushRecord {
    push::PushRecord {
        at: record.at.as_millis(),
        message_id: record.message.to_string(),
        delivery_count: record.delivery_count,
        inline: record.inline,
        duration_ms: record.duration_ms,
        outcome: record.outcome,
        status: record.status,
        error: record.error,
    }
}
