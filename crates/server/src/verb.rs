//! What a request asks for, as metrics and logs name it: a closed set, told from method and path alone, so that a request
//! that is refused before it reaches a handler has one too, and so that nothing of what was sent gets into a label.

use axum::http::Method;
use millpond_api::name::split_verb;
use millpond_api::vercel::path::{Endpoint, Place};

use crate::paths;

/// Segments behind `queues` or `topics`, at most.
const SEGMENTS_MAX: usize = 4;

macro_rules! verbs {
    ($($variant:ident $label:literal $route:literal,)+) => {
        /// What a request asks for.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Verb { $($variant,)+ }

        impl Verb {
            /// All of them, in the order of their numbers.
            pub(crate) const ALL: &[Verb] = &[$(Verb::$variant,)+];

            /// Its name in metrics.
            pub(crate) fn label(self) -> &'static str {
                match self { $(Verb::$variant => $label,)+ }
            }

            /// Its route in logs, without what precedes the collection.
            pub(crate) fn route(self) -> &'static str {
                match self { $(Verb::$variant => $route,)+ }
            }
        }
    };
}

verbs! {
    Ack "ack" "queues/{queue}:ack",
    CacheDelete "cache_delete" "cache/{key}",
    CacheGet "cache_get" "cache/{key}",
    CacheRevalidate "cache_revalidate" "cache/revalidate",
    CacheSet "cache_set" "cache/{key}",
    CreateEnvironment "create_environment" "envs",
    CreateGroup "create_group" "topics/{topic}/groups",
    CreateQueue "create_queue" "queues",
    CreateTopic "create_topic" "topics",
    CreateTrigger "create_trigger" "triggers",
    DeleteDeployment "delete_deployment" "deployments/{deployment}",
    DeleteGroup "delete_group" "topics/{topic}/groups/{group}",
    DeleteMessage "delete_message" "queues/{queue}/messages/{message}",
    DeletePartition "delete_partition" "topics/{topic}/partitions/{partition}",
    DeleteQueue "delete_queue" "queues/{queue}",
    DeleteTopic "delete_topic" "topics/{topic}",
    DeleteTrigger "delete_trigger" "triggers/{trigger}",
    Deploy "deploy" "deployments",
    Extend "extend" "queues/{queue}:extend",
    GetData "get_data" "queues/{queue}/messages/{message}/data",
    GetDeployment "get_deployment" "deployments/{deployment}",
    GetGroup "get_group" "topics/{topic}/groups/{group}",
    GetMessage "get_message" "queues/{queue}/messages/{message}",
    GetQueue "get_queue" "queues/{queue}",
    GetSigningSecret "get_signing_secret" "signing-secret",
    GetTopic "get_topic" "topics/{topic}",
    GetTrigger "get_trigger" "triggers/{trigger}",
    GetTriggerPushes "get_trigger_pushes" "triggers/{trigger}/pushes",
    Health "health" "healthz",
    Lease "lease" "queues/{queue}:lease",
    ListDeadLetters "list_dead_letters" "queues/{queue}/dead-letters",
    ListDeployments "list_deployments" "deployments",
    ListGroups "list_groups" "topics/{topic}/groups",
    ListPartitions "list_partitions" "topics/{topic}/partitions",
    ListQueues "list_queues" "queues",
    ListTopics "list_topics" "topics",
    ListTriggers "list_triggers" "triggers",
    Metrics "metrics" "metrics",
    Nack "nack" "queues/{queue}:nack",
    Openapi "openapi" "openapi.json",
    Other "other" "other",
    Pause "pause" "queues/{queue}:pause",
    PauseGroup "pause_group" "topics/{topic}/groups/{group}:pause",
    Peek "peek" "queues/{queue}:peek",
    Purge "purge" "queues/{queue}:purge",
    Redrive "redrive" "queues/{queue}:redrive",
    Replay "replay" "queues/{queue}:replay",
    Resume "resume" "queues/{queue}:resume",
    ResumeGroup "resume_group" "topics/{topic}/groups/{group}:resume",
    RotateSigningSecret "rotate_signing_secret" "signing-secret:rotate",
    Send "send" "queues/{queue}:send",
    Settle "settle" "queues/{queue}:settle",
    TopicAck "topic_ack" "topics/{topic}:ack",
    TopicExtend "topic_extend" "topics/{topic}:extend",
    TopicGetData "topic_get_data" "topics/{topic}/messages/{message}/data",
    TopicGetMessage "topic_get_message" "topics/{topic}/messages/{message}",
    TopicLease "topic_lease" "topics/{topic}:lease",
    TopicNack "topic_nack" "topics/{topic}:nack",
    TopicPeek "topic_peek" "topics/{topic}:peek",
    TopicSend "topic_send" "topics/{topic}:send",
    TopicSettle "topic_settle" "topics/{topic}:settle",
    UpdateGroup "update_group" "topics/{topic}/groups/{group}",
    UpdateQueue "update_queue" "queues/{queue}",
    UpdateTopic "update_topic" "topics/{topic}",
    VercelAck "vercel_ack" "topic/{topic}/consumer/{group}/lease/{handle}",
    VercelChange "vercel_change" "topic/{topic}/consumer/{group}/lease/{handle}",
    VercelOther "vercel_other" "topic/other",
    VercelReceive "vercel_receive" "topic/{topic}/consumer/{group}",
    VercelReceiveById "vercel_receive_by_id" "topic/{topic}/consumer/{group}/id/{message}",
    VercelSend "vercel_send" "topic/{topic}",
    VercelSendBatch "vercel_send_batch" "topic/{topic}/batch",
    Why "why" "queues/{queue}:why",
    WhyGroup "why_group" "topics/{topic}/groups/{group}:why",
}

impl Verb {
    /// What a request with this method and path asks for.
    pub(crate) fn of(method: &Method, path: &str) -> Self {
        if let Some(place) = Place::of(path) {
            return Self::of_vercel(method, place.endpoint);
        }
        let Some(rest) = path.strip_prefix(paths::VERSION_PREFIX) else {
            return match (method, path) {
                (&Method::GET, paths::HEALTH) => Self::Health,
                (&Method::GET, paths::METRICS) => Self::Metrics,
                (&Method::GET, "/openapi.json") => Self::Openapi,
                _ => Self::Other,
            };
        };
        if let Some(key) = path.strip_prefix(paths::CACHE_PREFIX) {
            return Self::of_cache(method, key);
        }
        let mut segments = rest.split('/');
        let mut first = segments.next();
        if first == Some("orgs") {
            // Behind `orgs/ORG/projects/PROJECT/envs` there is nothing, or `ENV/queues` or `ENV/topics`.
            if segments.by_ref().nth(3) != Some("envs") {
                return Self::Other;
            }
            if segments.next().is_none() {
                return if method == Method::POST { Self::CreateEnvironment } else { Self::Other };
            }
            first = segments.next();
        }
        let mut below = [""; SEGMENTS_MAX];
        for (slot, segment) in below.iter_mut().zip(segments.by_ref()) {
            *slot = segment;
        }
        match (first, segments.next()) {
            (Some("queues"), None) => Self::of_queues(method, below),
            (Some("topics"), None) => Self::of_topics(method, below),
            (Some("triggers"), None) => Self::of_triggers(method, below),
            (Some("deployments"), None) => Self::of_deployments(method, below),
            (Some(first), None) if below == [""; SEGMENTS_MAX] => Self::of_secret(method, first),
            _ => Self::Other,
        }
    }

    fn of_cache(method: &Method, key: &str) -> Self {
        match (method, key) {
            _ if key.is_empty() || key.contains('/') => Self::Other,
            (&Method::POST, "revalidate") => Self::CacheRevalidate,
            (_, "revalidate") => Self::Other,
            (&Method::DELETE, _) => Self::CacheDelete,
            (&Method::GET, _) => Self::CacheGet,
            (&Method::POST, _) => Self::CacheSet,
            _ => Self::Other,
        }
    }

    fn of_queues(method: &Method, below: [&str; SEGMENTS_MAX]) -> Self {
        match (method, below) {
            (&Method::GET, ["", "", ..]) => Self::ListQueues,
            (&Method::POST, ["", "", ..]) => Self::CreateQueue,
            (method, [queue, "", "", ""]) => Self::of_queue(method, queue),
            (&Method::GET, [_, "dead-letters", "", ""]) => Self::ListDeadLetters,
            (&Method::DELETE, [_, "messages", _, ""]) => Self::DeleteMessage,
            (&Method::GET, [_, "messages", _, ""]) => Self::GetMessage,
            (&Method::GET, [_, "messages", _, "data"]) => Self::GetData,
            _ => Self::Other,
        }
    }

    fn of_topics(method: &Method, below: [&str; SEGMENTS_MAX]) -> Self {
        match (method, below) {
            (&Method::GET, ["", "", ..]) => Self::ListTopics,
            (&Method::POST, ["", "", ..]) => Self::CreateTopic,
            (method, [topic, "", "", ""]) => Self::of_topic(method, topic),
            (&Method::GET, [_, "groups", "", ""]) => Self::ListGroups,
            (&Method::POST, [_, "groups", "", ""]) => Self::CreateGroup,
            (method, [_, "groups", group, ""]) => Self::of_group(method, group),
            (&Method::GET, [_, "messages", _, ""]) => Self::TopicGetMessage,
            (&Method::GET, [_, "messages", _, "data"]) => Self::TopicGetData,
            (&Method::GET, [_, "partitions", "", ""]) => Self::ListPartitions,
            (&Method::DELETE, [_, "partitions", _, ""]) => Self::DeletePartition,
            _ => Self::Other,
        }
    }

    fn of_triggers(method: &Method, below: [&str; SEGMENTS_MAX]) -> Self {
        match (method, below) {
            (&Method::GET, ["", "", ..]) => Self::ListTriggers,
            (&Method::POST, ["", "", ..]) => Self::CreateTrigger,
            (&Method::GET, [_, "", "", ""]) => Self::GetTrigger,
            (&Method::DELETE, [_, "", "", ""]) => Self::DeleteTrigger,
            (&Method::GET, [_, "pushes", "", ""]) => Self::GetTriggerPushes,
            _ => Self::Other,
        }
    }

    fn of_deployments(method: &Method, below: [&str; SEGMENTS_MAX]) -> Self {
        match (method, below) {
            (&Method::GET, ["", "", ..]) => Self::ListDeployments,
            (&Method::POST, ["", "", ..]) => Self::Deploy,
            (&Method::GET, [_, "", "", ""]) => Self::GetDeployment,
            (&Method::DELETE, [_, "", "", ""]) => Self::DeleteDeployment,
            _ => Self::Other,
        }
    }

    fn of_secret(method: &Method, segment: &str) -> Self {
        match (method, segment) {
            (&Method::GET, "signing-secret") => Self::GetSigningSecret,
            (&Method::POST, "signing-secret:rotate") => Self::RotateSigningSecret,
            _ => Self::Other,
        }
    }

    fn of_topic(method: &Method, segment: &str) -> Self {
        match (method, split_verb(segment).1) {
            (&Method::DELETE, None) => Self::DeleteTopic,
            (&Method::GET, None) => Self::GetTopic,
            (&Method::PATCH, None) => Self::UpdateTopic,
            (&Method::POST, Some("ack")) => Self::TopicAck,
            (&Method::POST, Some("extend")) => Self::TopicExtend,
            (&Method::POST, Some("lease")) => Self::TopicLease,
            (&Method::POST, Some("nack")) => Self::TopicNack,
            (&Method::POST, Some("peek")) => Self::TopicPeek,
            (&Method::POST, Some("send")) => Self::TopicSend,
            (&Method::POST, Some("settle")) => Self::TopicSettle,
            _ => Self::Other,
        }
    }

    fn of_group(method: &Method, segment: &str) -> Self {
        match (method, split_verb(segment).1) {
            (&Method::DELETE, None) => Self::DeleteGroup,
            (&Method::GET, None) => Self::GetGroup,
            (&Method::PATCH, None) => Self::UpdateGroup,
            (&Method::GET, Some("why")) => Self::WhyGroup,
            (&Method::POST, Some("pause")) => Self::PauseGroup,
            (&Method::POST, Some("resume")) => Self::ResumeGroup,
            _ => Self::Other,
        }
    }

    /// It speaks Vercel's wire.
    pub(crate) fn is_vercel(self) -> bool {
        matches!(
            self,
            Self::VercelAck
                | Self::VercelChange
                | Self::VercelOther
                | Self::VercelReceive
                | Self::VercelReceiveById
                | Self::VercelSend
                | Self::VercelSendBatch
        )
    }

    fn of_vercel(method: &Method, endpoint: Option<Endpoint>) -> Self {
        match (endpoint, method) {
            (Some(Endpoint::Batch), &Method::POST) => Self::VercelSendBatch,
            (Some(Endpoint::Lease), &Method::DELETE) => Self::VercelAck,
            (Some(Endpoint::Lease | Endpoint::Visibility), &Method::PATCH) => Self::VercelChange,
            (Some(Endpoint::Receive), &Method::POST) => Self::VercelReceive,
            (Some(Endpoint::ReceiveById), &Method::POST) => Self::VercelReceiveById,
            (Some(Endpoint::Send), &Method::POST) => Self::VercelSend,
            _ => Self::VercelOther,
        }
    }

    fn of_queue(method: &Method, segment: &str) -> Self {
        match (method, split_verb(segment).1) {
            (&Method::DELETE, None) => Self::DeleteQueue,
            (&Method::GET, None) => Self::GetQueue,
            (&Method::PATCH, None) => Self::UpdateQueue,
            (&Method::GET, Some("why")) => Self::Why,
            (&Method::POST, Some(verb)) => match verb {
                "ack" => Self::Ack,
                "extend" => Self::Extend,
                "lease" => Self::Lease,
                "nack" => Self::Nack,
                "pause" => Self::Pause,
                "peek" => Self::Peek,
                "purge" => Self::Purge,
                "redrive" => Self::Redrive,
                "replay" => Self::Replay,
                "resume" => Self::Resume,
                "send" => Self::Send,
                "settle" => Self::Settle,
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_snake_case_alphabetical_and_distinct() {
        let labels: Vec<_> = Verb::ALL.iter().map(|verb| verb.label()).collect();
        assert!(labels.windows(2).all(|pair| pair[0] < pair[1]), "{labels:?}");
        let snake = |label: &&str| label.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        assert!(labels.iter().all(snake), "{labels:?}");
        assert!(Verb::ALL.iter().enumerate().all(|(number, verb)| *verb as usize == number));
    }

    /// Method, path with `Q` for the queues, `T` for the topics and `E` for all of an environment, and verb.
    const PATHS: &[(&str, &str, &str)] = &[
        ("GET", "/healthz", "health"),
        ("GET", "/metrics", "metrics"),
        ("GET", "/openapi.json", "openapi"),
        ("POST", "/v1/orgs/o/projects/p/envs", "create_environment"),
        ("GET", "Q", "list_queues"),
        ("POST", "Q", "create_queue"),
        ("GET", "Q/mail", "get_queue"),
        ("PATCH", "Q/mail", "update_queue"),
        ("DELETE", "Q/mail", "delete_queue"),
        ("GET", "Q/mail:why", "why"),
        ("POST", "Q/mail:send", "send"),
        ("POST", "Q/mail:settle", "settle"),
        ("GET", "Q/mail/dead-letters", "list_dead_letters"),
        ("GET", "Q/mail/messages/msg_1", "get_message"),
        ("DELETE", "Q/mail/messages/msg_1", "delete_message"),
        ("GET", "Q/mail/messages/msg_1/data", "get_data"),
        ("POST", "/api/v3/topic/t", "vercel_send"),
        ("POST", "/r/iad1/api/v3/topic/t/batch", "vercel_send_batch"),
        ("POST", "/api/v3/topic/t/consumer/g", "vercel_receive"),
        ("POST", "/v1/queues/api/v3/topic/t/consumer/g/id/m", "vercel_receive_by_id"),
        ("DELETE", "/api/v3/topic/t/consumer/g/lease/h", "vercel_ack"),
        ("PATCH", "/api/v3/topic/t/consumer/g/lease/h", "vercel_change"),
        ("PATCH", "/api/v3/topic/t/consumer/g/lease/h/visibility", "vercel_change"),
        ("GET", "/api/v3/topic/t", "vercel_other"),
        ("POST", "/api/v3/topic/t/elsewhere", "vercel_other"),
        ("DELETE", "/api/v3/topic/t/consumer/g/lease/h/visibility", "vercel_other"),
        ("POST", "/api/v3/topics/t", "other"),
        ("GET", "/v1/cache/k$1", "cache_get"),
        ("POST", "/v1/cache/k", "cache_set"),
        ("DELETE", "/v1/cache/k", "cache_delete"),
        ("POST", "/v1/cache/revalidate", "cache_revalidate"),
        ("GET", "/v1/cache/revalidate", "other"),
        ("PUT", "/v1/cache/k", "other"),
        ("GET", "/v1/cache/k/more", "other"),
        ("GET", "/v1/cache/", "other"),
        ("GET", "/v1/cache", "other"),
        ("POST", "/healthz", "other"),
        ("GET", "/", "other"),
        ("GET", "/v1/", "other"),
        ("GET", "/v1/orgs/o/projects/p/envs", "other"),
        ("POST", "/v1/orgs/o/projects", "other"),
        ("POST", "Q/mail:explode", "other"),
        ("POST", "Q/mail", "other"),
        ("GET", "Q/mail:send", "other"),
        ("BREW", "Q", "other"),
        ("GET", "Q/mail/messages/msg_1/data/more", "other"),
        ("GET", "T", "list_topics"),
        ("POST", "T", "create_topic"),
        ("GET", "T/news", "get_topic"),
        ("PATCH", "T/news", "update_topic"),
        ("DELETE", "T/news", "delete_topic"),
        ("POST", "T/news:send", "topic_send"),
        ("POST", "T/news:settle", "topic_settle"),
        ("POST", "T/news:pause", "other"),
        ("GET", "T/news:why", "other"),
        ("GET", "T/news/groups", "list_groups"),
        ("POST", "T/news/groups", "create_group"),
        ("GET", "T/news/groups/g", "get_group"),
        ("GET", "T/news/groups/g:why", "why_group"),
        ("POST", "T/news/groups/g:resume", "resume_group"),
        ("GET", "T/news/groups/g/more", "other"),
        ("GET", "T/news/partitions", "list_partitions"),
        ("DELETE", "T/news/partitions/p", "delete_partition"),
        ("GET", "T/news/partitions/p", "other"),
        ("GET", "T/news/messages/msg_1", "topic_get_message"),
        ("GET", "T/news/messages/msg_1/data", "topic_get_data"),
        ("DELETE", "T/news/messages/msg_1", "other"),
        ("GET", "E/triggers", "list_triggers"),
        ("POST", "E/triggers", "create_trigger"),
        ("GET", "E/triggers/t", "get_trigger"),
        ("DELETE", "E/triggers/t", "delete_trigger"),
        ("GET", "E/triggers/t/pushes", "get_trigger_pushes"),
        ("PATCH", "E/triggers/t", "other"),
        ("GET", "E/triggers/t/pushes/1", "other"),
        ("GET", "E/deployments", "list_deployments"),
        ("POST", "E/deployments", "deploy"),
        ("GET", "E/deployments/d", "get_deployment"),
        ("DELETE", "E/deployments/d", "delete_deployment"),
        ("GET", "E/deployments/d/triggers", "other"),
        ("GET", "E/signing-secret", "get_signing_secret"),
        ("POST", "E/signing-secret:rotate", "rotate_signing_secret"),
        ("POST", "E/signing-secret", "other"),
        ("GET", "E/signing-secret/x", "other"),
    ];

    #[test]
    fn a_verb_is_told_from_method_and_path() {
        for &(method, path, verb) in PATHS {
            for before in ["/v1", "/v1/orgs/o/projects/p/envs/e"] {
                let path = path
                    .replace('Q', &format!("{before}/queues"))
                    .replace('T', &format!("{before}/topics"))
                    .replace('E', before);
                let method = Method::from_bytes(method.as_bytes()).expect("a token");
                let found = Verb::of(&method, &path);
                assert_eq!(found.label(), verb, "{method} {path}");
                assert_eq!(found.is_vercel(), verb.starts_with("vercel_"));
            }
        }
    }
}
