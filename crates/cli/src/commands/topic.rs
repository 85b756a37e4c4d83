//! `millpond topic`: topics as resources.

use clap::{Args, Subcommand};
use millpond_client::{Client, DeleteQueue, Error, ErrorCode, QueueQuery, Topic};
use serde_json::json;

use super::policies::{Changed, Made};
use super::queue::PAGE;
use super::{Common, retry};
use crate::confirm::Confirm;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Table, count_of, fields, print, print_json, safe, tell, when};

#[derive(Debug, Subcommand)]
pub(crate) enum TopicCommand {
    /// Make a topic
    Create(Create),
    /// Delete a topic with its messages, groups and partitions
    Delete(Delete),
    /// List the topics of an environment, with their counts
    List(List),
    /// Show a topic: policies and counts
    Show(Show),
    /// Change a topic's policies or labels
    Update(Update),
}

impl TopicCommand {
    pub(crate) async fn run(&self) -> Outcome {
        match self {
            TopicCommand::Create(command) => command.run().await,
            TopicCommand::Delete(command) => command.run().await,
            TopicCommand::List(command) => command.run().await,
            TopicCommand::Show(command) => command.run().await,
            TopicCommand::Update(command) => command.run().await,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Its id: 1 to 255 of A-Z, a-z, 0-9, _ and -
    topic: String,

    #[command(flatten)]
    made: Made,

    #[command(flatten)]
    common: Common,
}

impl Create {
    async fn run(&self) -> Outcome {
        let made = self.common.client()?.create_topic(&self.made.of(&self.topic)?).await;
        let made = made.map_err(|error| Failure::call(&format!("make topic {}", self.topic), &error))?;
        self.common.format.show(&made, || format!("{} topic {}", self.made.done(), made.id()))?;
        Ok(Exit::Done)
    }
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only some: AIP-160 over name and labels.KEY, as labels.team = "news"
    #[arg(long, default_value = "", value_name = "FILTER")]
    filter: String,

    /// `name` or `name desc`
    #[arg(long, default_value = "", value_name = "ORDER")]
    order_by: String,

    #[command(flatten)]
    common: Common,
}

impl List {
    async fn run(&self) -> Outcome {
        let client = self.common.client()?;
        let mut query = QueueQuery {
            page_size: Some(PAGE),
            filter: self.filter.clone(),
            order_by: self.order_by.clone(),
            ..QueueQuery::default()
        };
        let mut table = Table::new(&["TOPIC", "READY", "DELAYED"]);
        let mut count = 0;
        loop {
            let page = client.list_topics(&query).await;
            let page = page.map_err(|error| Failure::call("list topics", &error))?;
            count += page.topics.len();
            for topic in &page.topics {
                if self.common.format.json {
                    print_json(topic)?;
                } else {
                    let status = &topic.status;
                    let counts = [status.ready_count, status.delayed_count].map(|count| count.to_string());
                    table.row([topic.id().to_owned()].into_iter().chain(counts));
                }
            }
            if page.next_page_token.is_empty() {
                break;
            }
            query.page_token = page.next_page_token;
        }
        match (self.common.format.json, count) {
            (true, _) => {}
            (false, 0) => tell("no topics; make one with `millpond topic create TOPIC`"),
            (false, _) => print(&table.render())?,
        }
        Ok(Exit::Done)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Id or name of the topic
    topic: String,

    #[command(flatten)]
    common: Common,
}

impl Show {
    async fn run(&self) -> Outcome {
        let topic = self.common.client()?.get_topic(&self.topic).await;
        let topic = topic.map_err(|error| Failure::call(&format!("show topic {}", self.topic), &error))?;
        self.common.format.show(&topic, || describe(&topic))?;
        Ok(Exit::Done)
    }
}

fn describe(topic: &Topic) -> String {
    let (meta, status) = (&topic.meta, &topic.status);
    let labels: Vec<String> = meta.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let mut pairs = vec![
        ("name", topic.name.clone()),
        ("display name", safe(meta.display_name.as_deref().unwrap_or_default())),
        ("labels", labels.join(", ")),
        ("made", when(meta.create_time)),
        ("changed", when(meta.update_time)),
        ("etag", meta.etag.clone()),
        ("messages", format!("{} ready, {} delayed", status.ready_count, status.delayed_count)),
    ];
    let spec = serde_json::to_value(&topic.spec).expect("a spec can be written as JSON");
    for (name, value) in spec.as_object().into_iter().flatten() {
        pairs.push((name, value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
    }
    fields(&pairs)
}

#[derive(Debug, Args)]
pub(crate) struct Update {
    /// Id or name of the topic
    topic: String,

    #[command(flatten)]
    changed: Changed,

    #[command(flatten)]
    common: Common,
}

impl Update {
    async fn run(&self) -> Outcome {
        let what = format!("update topic {}", self.topic);
        self.changed.check(&what, "retention=1h")?;
        let client = self.common.client()?;
        let updated = retry(&self.changed, async || self.try_once(&client).await).await?;
        let updated = updated.map_err(|error| Failure::call(&what, &error))?;
        self.common.format.show(&updated, || format!("{} topic {}", self.changed.done(), updated.id()))?;
        Ok(Exit::Done)
    }

    async fn try_once(&self, client: &Client) -> Outcome<Result<Topic, Error>> {
        let current = match client.get_topic(&self.topic).await {
            Ok(current) => current,
            Err(error) => return Ok(Err(error)),
        };
        let update = self.changed.of(&current.spec, &current.meta)?;
        Ok(client.update_topic(&self.topic, &update).await)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// Id or name of the topic
    topic: String,

    /// Only if it has this etag
    #[arg(long, value_name = "ETAG")]
    etag: Option<String>,

    /// A topic that is not there is no error
    #[arg(long)]
    allow_missing: bool,

    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    common: Common,
}

impl Delete {
    async fn run(&self) -> Outcome {
        let what = format!("delete topic {}", self.topic);
        if !self.allow_missing {
            self.confirm.check(&what)?;
        }
        let client = self.common.client()?;
        let failed = |error| Failure::call(&what, &error);
        if !self.confirm.is_given() {
            match client.get_topic(&self.topic).await {
                Ok(Topic { status, .. }) => {
                    self.confirm.check(&what)?;
                    let held = count_of(status.ready_count + status.delayed_count, "message");
                    let question = format!("Delete topic {} with {held} and all its groups?", self.topic);
                    self.confirm.ask(&what, &question).await?;
                }
                // Nothing is lost, so there is nothing to ask.
                Err(error) if self.allow_missing && error.code() == Some(&ErrorCode::TopicNotFound) => {
                    return self.tell();
                }
                Err(error) => return Err(failed(error)),
            }
        }
        let how = DeleteQueue {
            etag: self.etag.clone(),
            allow_missing: self.allow_missing,
            ..DeleteQueue::default()
        };
        client.delete_topic(&self.topic, &how).await.map_err(failed)?;
        self.tell()
    }

    fn tell(&self) -> Outcome {
        let answer = json!({ "topic": self.topic, "deleted": true });
        self.common.format.show(&answer, || format!("deleted topic {}", self.topic))?;
        Ok(Exit::Done)
    }
}
