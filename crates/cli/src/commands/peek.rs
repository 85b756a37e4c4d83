//! `millpond peek`: looks at messages without taking them.

use clap::{Args, ValueEnum};
use millpond_client::{Message, MessageState};

use super::Common;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Table, data_line, print, print_json, safe, tell, when};

#[derive(Clone, Copy, Debug, ValueEnum)]
enum State {
    /// Could be handed out
    Ready,
    /// Hidden until their time
    Delayed,
    /// Being worked on
    Leased,
    /// Out of attempts
    Dead,
    /// Acked, and kept for a while
    Completed,
}

impl From<State> for MessageState {
    fn from(state: State) -> Self {
        match state {
            State::Ready => MessageState::Ready,
            State::Delayed => MessageState::Delayed,
            State::Leased => MessageState::Leased,
            State::Dead => MessageState::Dead,
            State::Completed => MessageState::Completed,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Peek {
    /// Id or name of the queue
    queue: String,

    /// In which state
    #[arg(long, value_enum, default_value_t = State::Ready)]
    state: State,

    /// At most so many, 1 to 100
    #[arg(long, default_value_t = 10, value_name = "COUNT")]
    max: u32,

    #[command(flatten)]
    common: Common,
}

impl Peek {
    pub(crate) async fn run(&self) -> Outcome {
        let client = self.common.client()?;
        let state = MessageState::from(self.state);
        let messages = client.peek(&self.queue, state, self.max).await;
        let messages =
            messages.map_err(|error| Failure::call(&format!("look into {}", self.queue), &error))?;
        show_list(&messages, self.common.format.json)?;
        if messages.is_empty() && !self.common.format.json {
            tell(&format!("nothing {} in {}", state.as_str(), self.queue));
        }
        Ok(Exit::Done)
    }
}

/// Messages, one a line.
pub(super) fn show_list(messages: &[Message], json: bool) -> Outcome<()> {
    if json {
        return messages.iter().try_for_each(print_json);
    }
    if messages.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["MESSAGE", "STATE", "DELIVERIES", "FAILURES", "SINCE", "TYPE", "DATA"]);
    for message in messages {
        let since = message.dead_letter_time.or(message.finish_time).unwrap_or(message.send_time);
        table.row([
            message.message_id.clone(),
            message.state.as_str().to_owned(),
            message.delivery_count.to_string(),
            message.failure_count.to_string(),
            when(since),
            safe(&message.event.kind),
            data_line(&message.event),
        ]);
    }
    print(&table.render())
}
