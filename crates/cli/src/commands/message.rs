//! `millpond message`: one message by its id.

use clap::{Args, Subcommand};
use millpond_client::{Data, Message};
use serde_json::json;

use super::Common;
use crate::confirm::Confirm;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{fields, print_bytes, safe, when};

#[derive(Debug, Subcommand)]
pub(crate) enum MessageCommand {
    /// Delete a message, whatever its state, unless it is leased
    Delete(Delete),
    /// Show a message: where it stands, and what it carries
    Show(Show),
}

impl MessageCommand {
    pub(crate) async fn run(&self) -> Outcome {
        match self {
            MessageCommand::Delete(command) => command.run().await,
            MessageCommand::Show(command) => command.run().await,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Id or name of the queue
    queue: String,

    /// Id of the message
    message: String,

    /// Write its data to stdout, byte for byte, and nothing else
    #[arg(long, conflicts_with = "json")]
    data: bool,

    /// Generation of the lease, for large data of a leased message
    #[arg(long, requires = "data", value_name = "GENERATION")]
    lease_generation: Option<u64>,

    #[command(flatten)]
    common: Common,
}

impl Show {
    async fn run(&self) -> Outcome {
        let client = self.common.client()?;
        let failed = |error| Failure::call(&format!("show message {}", self.message), &error);
        let message = client.get_message(&self.queue, &self.message).await.map_err(failed)?;
        if self.data {
            let Some(data) = &message.event.data else { return Ok(Exit::Done) };
            match data.bytes() {
                Some(bytes) => print_bytes(&bytes)?,
                None => {
                    let generation = self.lease_generation;
                    let data = client.message_data(&self.queue, &self.message, generation, None).await;
                    print_bytes(&data.map_err(failed)?.bytes)?;
                }
            }
            return Ok(Exit::Done);
        }
        self.common.format.show(&message, || describe(&message))?;
        Ok(Exit::Done)
    }
}

fn describe(message: &Message) -> String {
    let event = &message.event;
    let time = |time: Option<std::time::SystemTime>| time.map(when).unwrap_or_default();
    let text = |text: &Option<String>| safe(text.as_deref().unwrap_or_default());
    let extensions: Vec<String> =
        event.extensions.iter().map(|(name, value)| safe(&format!("{name}={value}"))).collect();
    let data = match &event.data {
        None => String::new(),
        Some(Data::Json(json)) => safe(json.get()),
        Some(Data::Text(text)) => safe(text),
        Some(Data::Bytes(bytes)) => format!("{} bytes that are not text (--data writes them)", bytes.len()),
        Some(Data::Url(_)) => "large (--data writes it)".to_owned(),
    };
    fields(&[
        ("message", message.message_id.clone()),
        ("queue", message.queue.clone()),
        ("state", message.state.as_str().to_owned()),
        ("deliveries", message.delivery_count.to_string()),
        ("failures", message.failure_count.to_string()),
        ("lost leases", message.lost_lease_count.to_string()),
        ("priority", message.priority.to_string()),
        ("sent", when(message.send_time)),
        ("visible", time(message.visible_time)),
        ("leased until", time(message.lease_expire_time)),
        ("died", time(message.dead_letter_time)),
        ("died because", text(&message.dead_letter_reason)),
        ("came from", text(&message.dead_letter_queue)),
        ("finished", time(message.finish_time)),
        ("expires", time(message.expire_time)),
        ("bytes", message.size_bytes.map(|bytes| bytes.to_string()).unwrap_or_default()),
        ("id", safe(&event.id)),
        ("source", safe(&event.source)),
        ("type", safe(&event.kind)),
        ("subject", text(&event.subject)),
        ("time", text(&event.time)),
        ("content type", text(&event.data_content_type)),
        ("extensions", extensions.join(", ")),
        ("data", data),
    ])
}

#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// Id or name of the queue
    queue: String,

    /// Id of the message
    message: String,

    #[command(flatten)]
    confirm: Confirm,

    #[command(flatten)]
    common: Common,
}

impl Delete {
    async fn run(&self) -> Outcome {
        let what = format!("delete message {}", self.message);
        self.confirm.check(&what)?;
        let client = self.common.client()?;
        let failed = |error| Failure::call(&what, &error);
        if !self.confirm.is_given() {
            let state = client.get_message(&self.queue, &self.message).await.map_err(failed)?.state;
            self.confirm
                .ask(&what, &format!("Delete message {}, which is {}?", self.message, state.as_str()))
                .await?;
        }
        client.delete_message(&self.queue, &self.message).await.map_err(failed)?;
        let answer = json!({ "message_id": self.message, "deleted": true });
        self.common.format.show(&answer, || format!("deleted message {}", self.message))?;
        Ok(Exit::Done)
    }
}
