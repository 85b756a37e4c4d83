//! `millpond group`: groups of a topic as resources.

use clap::{Args, Subcommand, ValueEnum};
use millpond_client::{DeleteQueue, ErrorCode, Group, QueueQuery, Start};
use serde_json::json;

use super::policies::Made;
use super::queue::PAGE;
use super::reader::Reader;
use super::{Common, why};
use crate::confirm::Confirm;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Table, count_of, fields, print, print_json, safe, tell, when};

#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// Make a group; its first lease does so as well
    Create(Create),
    /// Delete a group: a later one of this id begins anew
    Delete(Delete),
    /// List the groups of a topic, with their counts
    List(List),
    /// Stop handing messages out to a group
    Pause(Named),
    /// Hand messages out to a group again
    Resume(Named),
    /// Show a group: policies, counts, and why nothing is delivered
    Show(Named),
}

impl GroupCommand {
    pub(crate) async fn run(&self) -> Outcome {
        match self {
            GroupCommand::Create(command) => command.run().await,
            GroupCommand::Delete(command) => command.run().await,
            GroupCommand::List(command) => command.run().await,
            GroupCommand::Pause(command) => command.pause().await,
            GroupCommand::Resume(command) => command.resume().await,
            GroupCommand::Show(command) => command.show().await,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Begin {
    /// At the oldest message that is there
    Earliest,
    /// Behind all that are visible by now
    Latest,
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Its id: 1 to 255 of A-Z, a-z, 0-9, _ and -
    group: String,

    /// Id or name of the topic
    #[arg(long, value_name = "TOPIC")]
    topic: String,

    /// Where it begins
    #[arg(long, value_enum, default_value_t = Begin::Earliest)]
    start: Begin,

    #[command(flatten)]
    made: Made,

    #[command(flatten)]
    common: Common,
}

impl Create {
    async fn run(&self) -> Outcome {
        let start = match self.start {
            Begin::Earliest => Start::Earliest,
            Begin::Latest => Start::Latest,
        };
        let new = self.made.of(&self.group)?;
        let made = self.common.client()?.create_group(&self.topic, &new, start).await;
        let what = format!("make group {} of topic {}", self.group, self.topic);
        let made = made.map_err(|error| Failure::call(&what, &error))?;
        let done = self.made.done();
        self.common.format.show(&made, || format!("{done} group {} of topic {}", made.id(), self.topic))?;
        Ok(Exit::Done)
    }
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Id or name of the topic
    #[arg(long, value_name = "TOPIC")]
    topic: String,

    /// Only some: AIP-160 over name, labels.KEY and paused, as paused = true
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
        let mut table = Table::new(&["GROUP", "READY", "DELAYED", "LEASED", "WHY"]);
        let mut count = 0;
        loop {
            let page = client.list_groups(&self.topic, &query).await;
            let page =
                page.map_err(|error| Failure::call(&format!("list groups of topic {}", self.topic), &error))?;
            count += page.groups.len();
            for group in &page.groups {
                if self.common.format.json {
                    print_json(group)?;
                } else {
                    table.row(row(group));
                }
            }
            if page.next_page_token.is_empty() {
                break;
            }
            query.page_token = page.next_page_token;
        }
        match (self.common.format.json, count) {
            (true, _) => {}
            (false, 0) => tell(&format!(
                "no groups; a lease makes one, as `millpond lease --topic {} --group GROUP`",
                self.topic
            )),
            (false, _) => print(&table.render())?,
        }
        Ok(Exit::Done)
    }
}

fn row(group: &Group) -> [String; 5] {
    let status = &group.status;
    let why = status.why.as_ref().map(|why| why.reason.replace('_', " "));
    [
        group.id().to_owned(),
        status.ready_count.to_string(),
        status.delayed_count.to_string(),
        status.leased_count.to_string(),
        why.unwrap_or_default(),
    ]
}

#[derive(Debug, Args)]
pub(crate) struct Named {
    /// Id of the group
    group: String,

    /// Id or name of the topic
    #[arg(long, value_name = "TOPIC")]
    topic: String,

    #[command(flatten)]
    common: Common,
}

impl Named {
    async fn show(&self) -> Outcome {
        let group = self.common.client()?.get_group(&self.topic, &self.group).await;
        let group = group.map_err(|error| self.failed("show", &error))?;
        self.common.format.show(&group, || describe(&group, &self.topic))?;
        Ok(Exit::Done)
    }

    async fn pause(&self) -> Outcome {
        let group = self.common.client()?.pause_group(&self.topic, &self.group).await;
        let group = group.map_err(|error| self.failed("pause", &error))?;
        self.common.format.show(&group, || {
            let leased = count_of(group.status.leased_count, "message");
            format!("paused {}; {leased} being worked on can still be finished", self.called())
        })?;
        Ok(Exit::Done)
    }

    async fn resume(&self) -> Outcome {
        let group = self.common.client()?.resume_group(&self.topic, &self.group).await;
        let group = group.map_err(|error| self.failed("resume", &error))?;
        self.common.format.show(&group, || {
            let ready = count_of(group.status.ready_count, "message");
            format!("resumed {}; {ready} ready", self.called())
        })?;
        Ok(Exit::Done)
    }

    fn called(&self) -> String {
        format!("group {} of topic {}", self.group, self.topic)
    }

    fn failed(&self, verb: &str, error: &millpond_client::Error) -> Failure {
        Failure::call(&format!("{verb} {}", self.called()), error)
    }
}

fn describe(group: &Group, topic: &str) -> String {
    let (meta, status) = (&group.meta, &group.status);
    let labels: Vec<String> = meta.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let reader = Reader::Group { topic: topic.to_owned(), group: group.id().to_owned(), partition: None };
    let why = status.why.as_ref().map(|known| why::sentence(&reader, known));
    let counts = format!(
        "{} ready, {} delayed, {} leased",
        status.ready_count, status.delayed_count, status.leased_count
    );
    let mut pairs = vec![
        ("name", group.name.clone()),
        ("display name", safe(meta.display_name.as_deref().unwrap_or_default())),
        ("labels", labels.join(", ")),
        ("made", when(meta.create_time)),
        ("changed", when(meta.update_time)),
        ("etag", meta.etag.clone()),
        ("messages", counts),
        ("paused", if status.paused { "yes" } else { "no" }.to_owned()),
        ("why", why.unwrap_or_default()),
    ];
    let spec = serde_json::to_value(&group.spec).expect("a spec can be written as JSON");
    for (name, value) in spec.as_object().into_iter().flatten() {
        pairs.push((name, value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
    }
    fields(&pairs)
}

#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// Only if it has this etag
    #[arg(long, value_name = "ETAG")]
    etag: Option<String>,

    /// A group that is not there is no error
    #[arg(long)]
    allow_missing: bool,

    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    named: Named,
}

impl Delete {
    async fn run(&self) -> Outcome {
        let Named { group, topic, common } = &self.named;
        let what = format!("delete {}", self.named.called());
        if !self.allow_missing {
            self.confirm.check(&what)?;
        }
        let client = common.client()?;
        if !self.confirm.is_given() {
            match client.get_group(topic, group).await {
                Ok(Group { status, .. }) => {
                    self.confirm.check(&what)?;
                    let left = count_of(status.unfinished_count(), "message");
                    let question = format!("Delete {}, which has {left} to do?", self.named.called());
                    self.confirm.ask(&what, &question).await?;
                }
                // Nothing is lost, so there is nothing to ask.
                Err(error) if self.allow_missing && error.code() == Some(&ErrorCode::GroupNotFound) => {
                    return self.tell();
                }
                Err(error) => return Err(self.named.failed("delete", &error)),
            }
        }
        let how = DeleteQueue {
            etag: self.etag.clone(),
            allow_missing: self.allow_missing,
            ..DeleteQueue::default()
        };
        let deleted = client.delete_group(topic, group, &how).await;
        deleted.map_err(|error| self.named.failed("delete", &error))?;
        self.tell()
    }

    fn tell(&self) -> Outcome {
        let Named { group, topic, common } = &self.named;
        let answer = json!({ "topic": topic, "group": group, "deleted": true });
        common.format.show(&answer, || format!("deleted {}", self.named.called()))?;
        Ok(Exit::Done)
    }
}
