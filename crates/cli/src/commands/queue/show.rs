//! `millpond queue list`, `show`, `pause` and `resume`.

use clap::Args;
use millpond_client::{Queue, QueueQuery};

use super::PAGE;
use crate::commands::reader::Reader;
use crate::commands::{Common, why};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Table, count_of, fields, print, print_json, safe, tell, when};

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only some: AIP-160 over name, labels.KEY and paused, as labels.team = "mail" AND paused = true
    #[arg(long, default_value = "", value_name = "FILTER")]
    filter: String,

    /// `name` or `name desc`
    #[arg(long, default_value = "", value_name = "ORDER")]
    order_by: String,

    #[command(flatten)]
    common: Common,
}

impl List {
    pub(super) async fn run(&self) -> Outcome {
        let client = self.common.client()?;
        let mut query = QueueQuery {
            page_size: Some(PAGE),
            filter: self.filter.clone(),
            order_by: self.order_by.clone(),
            ..QueueQuery::default()
        };
        let mut table = Table::new(&["QUEUE", "READY", "DELAYED", "LEASED", "DEAD", "WHY"]);
        let mut count = 0;
        loop {
            let page = client.list_queues(&query).await;
            let page = page.map_err(|error| Failure::call("list queues", &error))?;
            count += page.queues.len();
            for queue in &page.queues {
                if self.common.format.json {
                    print_json(queue)?;
                } else {
                    table.row(row(queue));
                }
            }
            if page.next_page_token.is_empty() {
                break;
            }
            query.page_token = page.next_page_token;
        }
        if !self.common.format.json {
            if count > 0 {
                print(&table.render())?;
            } else {
                tell("no queues; make one with `millpond queue create QUEUE`");
            }
        }
        Ok(Exit::Done)
    }
}

fn row(queue: &Queue) -> [String; 6] {
    let status = &queue.status;
    let why = status.why.as_ref().map(|why| why.reason.replace('_', " "));
    [
        queue.id().to_owned(),
        status.ready_count.to_string(),
        status.delayed_count.to_string(),
        status.leased_count.to_string(),
        status.dead_letter_count.to_string(),
        why.unwrap_or_default(),
    ]
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Id or name of the queue
    queue: String,

    #[command(flatten)]
    common: Common,
}

impl Show {
    pub(super) async fn run(&self) -> Outcome {
        let queue = self.common.client()?.get_queue(&self.queue).await;
        let queue = queue.map_err(|error| Failure::call(&format!("show queue {}", self.queue), &error))?;
        self.common.format.show(&queue, || describe(&queue))?;
        Ok(Exit::Done)
    }
}

fn describe(queue: &Queue) -> String {
    let (meta, status) = (&queue.meta, &queue.status);
    let labels: Vec<String> = meta.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let why = status.why.as_ref().map(|known| why::sentence(&Reader::Queue(queue.id().to_owned()), known));
    let counts = format!(
        "{} ready, {} delayed, {} leased, {} dead, {} finished",
        status.ready_count,
        status.delayed_count,
        status.leased_count,
        status.dead_letter_count,
        status.finished_count
    );
    let mut pairs = vec![
        ("name", queue.name.clone()),
        ("display name", safe(meta.display_name.as_deref().unwrap_or_default())),
        ("labels", labels.join(", ")),
        ("made", when(meta.create_time)),
        ("changed", when(meta.update_time)),
        ("etag", meta.etag.clone()),
        ("messages", counts),
        ("paused", if status.paused { "yes" } else { "no" }.to_owned()),
        ("why", why.unwrap_or_default()),
    ];
    let spec = serde_json::to_value(&queue.spec).expect("a spec can be written as JSON");
    for (name, value) in spec.as_object().into_iter().flatten() {
        pairs.push((name, value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
    }
    fields(&pairs)
}

#[derive(Debug, Args)]
pub(crate) struct Pause {
    /// Id or name of the queue
    queue: String,

    #[command(flatten)]
    common: Common,
}

impl Pause {
    pub(super) async fn run(&self) -> Outcome {
        let queue = self.common.client()?.pause_queue(&self.queue).await;
        let queue = queue.map_err(|error| Failure::call(&format!("pause queue {}", self.queue), &error))?;
        self.common.format.show(&queue, || {
            let leased = count_of(queue.status.leased_count, "message");
            format!("paused queue {}; {leased} being worked on can still be finished", queue.id())
        })?;
        Ok(Exit::Done)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// Id or name of the queue
    queue: String,

    #[command(flatten)]
    common: Common,
}

impl Resume {
    pub(super) async fn run(&self) -> Outcome {
        let queue = self.common.client()?.resume_queue(&self.queue).await;
        let queue = queue.map_err(|error| Failure::call(&format!("resume queue {}", self.queue), &error))?;
        self.common.format.show(&queue, || {
            let ready = count_of(queue.status.ready_count, "message");
            format!("resumed queue {}; {ready} ready", queue.id())
        })?;
        Ok(Exit::Done)
    }
}
