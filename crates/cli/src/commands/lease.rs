//! `millpond lease`: takes messages by hand.

use std::time::Duration;

use clap::Args;
use millpond_client::{LeaseOptions, LeasedMessage};

use super::Common;
use super::reader::{GroupArguments, Reader};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{data_line, print, print_json, safe, tell, when};
use crate::value;

#[derive(Debug, Args)]
pub(crate) struct Lease {
    /// Id or name of the queue
    #[arg(required_unless_present = "topic", conflicts_with = "topic")]
    queue: Option<String>,

    #[command(flatten)]
    group: GroupArguments,

    /// Only messages of this partition
    #[arg(long, value_name = "PARTITION", requires = "topic")]
    partition: Option<String>,

    /// At most so many messages, 1 to 100
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    max: u32,

    /// Wait for so many
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    min: u32,

    /// How long to wait for messages, up to 20s
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = value::duration)]
    wait: Duration,

    /// Once something is there, how long to wait for --min messages, up to 20s and within --wait
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    max_wait: Option<Duration>,

    /// How long the leases last, 1s to 12h; the queue's timeout unless given
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    visibility_timeout: Option<Duration>,

    #[command(flatten)]
    common: Common,
}

impl Lease {
    pub(crate) async fn run(&self) -> Outcome {
        let options = LeaseOptions {
            max_messages: self.max,
            min_messages: self.min,
            visibility_timeout: self.visibility_timeout,
            wait: self.wait,
            max_wait: self.max_wait,
        };
        let client = self.common.client()?;
        let reader = self.group.reader(self.queue.as_deref(), self.partition.as_deref());
        let messages = client.lease(reader.source(), &options).await;
        let messages =
            messages.map_err(|error| Failure::call(&format!("lease from {}", reader.called()), &error))?;
        for message in &messages {
            if self.common.format.json {
                print_json(message)?;
            } else {
                print(&describe(&reader, message))?;
            }
        }
        if messages.is_empty() && !self.common.format.json {
            tell(&format!("nothing to lease; `millpond why {}` says why", reader.words()));
        }
        Ok(Exit::Done)
    }
}

fn describe(reader: &Reader, message: &LeasedMessage) -> String {
    let event = &message.event;
    let lease = value::show_lease(&message.lease);
    format!(
        "{}  delivery {}, leased until {}\n  {} from {}: {}\n  millpond ack {} {lease}",
        message.message_id,
        message.delivery_count,
        when(message.lease_expire_time),
        safe(&event.kind),
        safe(&event.source),
        data_line(event),
        reader.words(),
    )
}
