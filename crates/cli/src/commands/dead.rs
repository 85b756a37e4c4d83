//! `millpond dead`: the dead letters of a queue.

use std::time::SystemTime;

use clap::{Args, Subcommand};
use millpond_client::DeadLetterQuery;

use super::{Common, peek};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::tell;
use crate::value;

/// Dead letters asked for at once, as the server has it.
const PAGE: usize = 100;

#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// List a queue's dead letters, in the order in which they died
    List(List),
}

impl DeadCommand {
    pub(crate) async fn run(&self) -> Outcome {
        match self {
            DeadCommand::List(command) => command.run().await,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Id or name of the queue
    queue: String,

    /// At most so many
    #[arg(long, default_value_t = 100, value_name = "COUNT")]
    max: usize,

    /// Only those that died at or after this time (2026-10-07T12:30:00Z), or so long ago at most (2h)
    #[arg(long, value_name = "TIME", value_parser = value::moment)]
    since: Option<SystemTime>,

    /// Only those that died before this time, or longer ago than this
    #[arg(long, value_name = "TIME", value_parser = value::moment)]
    until: Option<SystemTime>,

    #[command(flatten)]
    common: Common,
}

impl List {
    async fn run(&self) -> Outcome {
        let client = self.common.client()?;
        let mut query =
            DeadLetterQuery { start_time: self.since, end_time: self.until, ..DeadLetterQuery::default() };
        let (mut messages, mut more) = (Vec::new(), true);
        while more && messages.len() < self.max {
            query.page_size = u32::try_from((self.max - messages.len()).min(PAGE)).ok();
            let page = client.list_dead_letters(&self.queue, &query).await;
            let failed = |error| Failure::call(&format!("list dead letters of {}", self.queue), &error);
            let page = page.map_err(failed)?;
            messages.extend(page.messages);
            more = !page.next_page_token.is_empty();
            query.page_token = page.next_page_token;
        }
        peek::show_list(&messages, self.common.format.json)?;
        if more {
            tell("there are more; --max COUNT shows them");
        } else if messages.is_empty() && !self.common.format.json {
            tell(&format!("no dead letters in {}", self.queue));
        }
        Ok(Exit::Done)
    }
}
