//! Calls about topics, groups and partitions as resources.

use hyper::Method;
use serde_json::{Value, json};

use crate::call::{BULK_ANSWER_MAX, Call, encode};
use crate::client::Client;
use crate::error::Error;
use crate::queue::Why;
use crate::request::{DeleteQueue, GroupUpdate, NewGroup, NewTopic, QueueQuery, TopicUpdate};
use crate::source::Start;
use crate::topic::{Group, GroupPage, PartitionPage, Topic, TopicPage};

/// Each call fails as [`Error`] says; a code that only one call has stands with it. A topic is named by its id, in the client's
/// environment, or by its whole name; groups and partitions by their ids.
impl Client {
    /// Makes a topic.
    ///
    /// # Errors
    /// `topic_already_exists`, `queue_limit`.
    pub async fn create_topic(&self, topic: &NewTopic) -> Result<Topic, Error> {
        let (call, body) = topic.to_call(&self.topics_path(), "topic_id");
        self.fetch(call.json(&body)).await
    }

    /// A page of the environment's topics.
    ///
    /// # Errors
    /// `page_token_invalid`.
    pub async fn list_topics(&self, query: &QueueQuery) -> Result<TopicPage, Error> {
        self.fetch(query.to_call(&self.topics_path())).await
    }

    /// A topic, with exact counts in its status.
    ///
    /// # Errors
    /// `topic_not_found`.
    pub async fn get_topic(&self, topic: &str) -> Result<Topic, Error> {
        self.fetch(Call::get(&self.topic_path(topic))).await
    }

    /// Changes a topic.
    ///
    /// # Errors
    /// `topic_not_found`, `etag_mismatch`.
    pub async fn update_topic(&self, topic: &str, update: &TopicUpdate) -> Result<Topic, Error> {
        self.fetch(update.to_call(&self.topic_path(topic))).await
    }

    /// Deletes a topic with its messages, groups and partitions.
    ///
    /// # Errors
    /// `topic_not_found`, `etag_mismatch`.
    pub async fn delete_topic(&self, topic: &str, how: &DeleteQueue) -> Result<(), Error> {
        self.fetch::<Value>(how.to_call(&self.topic_path(topic))).await.map(drop)
    }

    /// Makes a group. The first lease of a group does so as well.
    ///
    /// # Errors
    /// `topic_not_found`, `group_already_exists`, `queue_limit`.
    pub async fn create_group(&self, topic: &str, group: &NewGroup, start: Start) -> Result<Group, Error> {
        let (call, mut body) = group.to_call(&format!("{}/groups", self.topic_path(topic)), "group_id");
        body["start"] = json!(start);
        self.fetch(call.json(&body)).await
    }

    /// A page of a topic's groups.
    ///
    /// # Errors
    /// `topic_not_found`, `page_token_invalid`.
    pub async fn list_groups(&self, topic: &str, query: &QueueQuery) -> Result<GroupPage, Error> {
        self.fetch(query.to_call(&format!("{}/groups", self.topic_path(topic)))).await
    }

    /// A group, with exact counts in its status.
    ///
    /// # Errors
    /// `group_not_found`.
    pub async fn get_group(&self, topic: &str, group: &str) -> Result<Group, Error> {
        self.fetch(Call::get(&self.group_path(topic, group))).await
    }

    /// Changes a group.
    ///
    /// # Errors
    /// `group_not_found`, `etag_mismatch`.
    pub async fn update_group(&self, topic: &str, group: &str, update: &GroupUpdate) -> Result<Group, Error> {
        self.fetch(update.to_call(&self.group_path(topic, group))).await
    }

    /// Deletes a group; its leases end.
    ///
    /// # Errors
    /// `group_not_found`, `etag_mismatch`.
    pub async fn delete_group(&self, topic: &str, group: &str, how: &DeleteQueue) -> Result<(), Error> {
        self.fetch::<Value>(how.to_call(&self.group_path(topic, group))).await.map(drop)
    }

    /// Stops handing messages out to a group.
    ///
    /// # Errors
    /// `group_not_found`.
    pub async fn pause_group(&self, topic: &str, group: &str) -> Result<Group, Error> {
        let path = format!("{}:pause", self.group_path(topic, group));
        self.fetch(Call::change(Method::POST, &path)).await
    }

    /// Hands messages out to a group again.
    ///
    /// # Errors
    /// `group_not_found`.
    pub async fn resume_group(&self, topic: &str, group: &str) -> Result<Group, Error> {
        let path = format!("{}:resume", self.group_path(topic, group));
        self.fetch(Call::change(Method::POST, &path)).await
    }

    /// Why nothing is handed out to a group.
    ///
    /// # Errors
    /// `group_not_found`.
    pub async fn why_group(&self, topic: &str, group: &str) -> Result<Why, Error> {
        self.why_at(&self.group_path(topic, group)).await
    }

    /// A page of a topic's partitions.
    ///
    /// # Errors
    /// `topic_not_found`, `page_token_invalid`.
    pub async fn list_partitions(&self, topic: &str, query: &QueueQuery) -> Result<PartitionPage, Error> {
        self.fetch(query.to_call(&format!("{}/partitions", self.topic_path(topic)))).await
    }

    /// Deletes a partition with its messages, for all groups.
    ///
    /// # Errors
    /// `partition_not_found`.
    pub async fn delete_partition(&self, topic: &str, partition: &str) -> Result<(), Error> {
        let path = format!("{}/partitions/{}", self.topic_path(topic), encode(partition));
        self.fetch::<Value>(Call::change(Method::DELETE, &path).within(BULK_ANSWER_MAX)).await.map(drop)
    }

    fn group_path(&self, topic: &str, group: &str) -> String {
        format!("{}/groups/{}", self.topic_path(topic), encode(group))
    }
}
