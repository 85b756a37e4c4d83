//! `millpond ack`, `nack` and `extend`: settles leases by hand.

use std::time::Duration;

use clap::Args;
use millpond_client::{Client, Error, Lease, Source};
use serde::Deserialize;
use serde_json::json;

use super::Common;
use super::reader::GroupArguments;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::count_of;
use crate::value;

/// Leases in one call, as the server has it.
const LEASES_PER_CALL: usize = 100;

#[derive(Debug, Args)]
struct Leases {
    /// Id or name of the queue; left out with --topic
    #[arg(required_unless_present = "topic")]
    queue: Option<String>,

    /// Leases as `lease` prints them, MESSAGE_ID@GENERATION, of groups with @DELIVERY behind it; - reads them from stdin, one a
    /// line, also in JSON
    #[arg(required_unless_present = "topic", value_name = "LEASE")]
    leases: Vec<String>,

    #[command(flatten)]
    group: GroupArguments,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Ack {
    #[command(flatten)]
    leases: Leases,
}

#[derive(Debug, Args)]
pub(crate) struct Nack {
    /// When the messages come back (0s, 5m); by the queue's backoff unless given
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    delay: Option<Duration>,

    #[command(flatten)]
    leases: Leases,
}

#[derive(Debug, Args)]
pub(crate) struct Extend {
    /// How long the leases last from now, 1s to 12h; the queue's timeout unless given
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    visibility_timeout: Option<Duration>,

    #[command(flatten)]
    leases: Leases,
}

impl Ack {
    pub(crate) async fn run(&self) -> Outcome {
        self.leases
            .settle("ack", "acked", async |client, source, leases| client.ack(source, leases).await)
            .await
    }
}

impl Nack {
    pub(crate) async fn run(&self) -> Outcome {
        let nack = async |client: &Client, source: &Source, leases: &[Lease]| {
            client.nack(source, leases, self.delay).await
        };
        self.leases.settle("nack", "nacked", nack).await
    }
}

impl Extend {
    pub(crate) async fn run(&self) -> Outcome {
        let extend = async |client: &Client, source: &Source, leases: &[Lease]| {
            client.extend(source, leases, self.visibility_timeout).await
        };
        self.leases.settle("extend", "extended", extend).await
    }
}

impl Leases {
    async fn settle(
        &self,
        verb: &str,
        done: &str,
        call: impl AsyncFn(&Client, &Source, &[Lease]) -> Result<Vec<Lease>, Error>,
    ) -> Outcome {
        let leases = self.read(verb).await?;
        let client = self.common.client()?;
        let reader = self.group.reader(self.queue.as_deref(), None);
        let source = reader.source();
        let (mut stale, mut told, mut failure) = (Vec::new(), 0, None);
        for part in leases.chunks(LEASES_PER_CALL) {
            match call(&client, &source, part).await {
                Ok(more) => stale.extend(more),
                Err(error) => {
                    failure = Some(Failure::call(&format!("{verb} in {}", reader.called()), &error));
                    break;
                }
            }
            told += part.len();
        }
        let settled = (told - stale.len()) as u64;
        if told == 0
            && let Some(failure) = failure
        {
            return Err(failure);
        }
        let answer = json!({ "settled_count": settled.to_string(), "stale_leases": stale });
        self.common.format.show(&answer, || format!("{done} {}", count_of(settled, "message")))?;
        if let Some(failure) = failure {
            let rest = count_of((leases.len() - told) as u64, "lease");
            return Err(failure.advise(format!("the last {rest} given may still be held; {verb} them again")));
        }
        if stale.is_empty() {
            return Ok(Exit::Done);
        }
        let named: Vec<String> = stale.iter().map(value::show_lease).collect();
        let why = format!("no longer held: {}", named.join(", "));
        let advice = "they ran out or were settled before; lease the messages again, if they are still there";
        Err(Failure::new(Exit::Refused, format!("could not {verb} all"), why).advise(advice))
    }

    async fn read(&self, verb: &str) -> Outcome<Vec<Lease>> {
        let refuse = |why: String| Failure::usage(format!("cannot {verb}"), why);
        let mut leases = Vec::new();
        // Of a group there is no queue before the leases.
        let first = self.queue.as_ref().filter(|_| self.group.is_given());
        if first.is_none() && self.leases.is_empty() {
            return Err(refuse("no lease is named".to_owned()).advise("name leases, or - for stdin"));
        }
        for text in first.into_iter().chain(&self.leases) {
            if text != "-" {
                leases.push(value::lease(text).map_err(refuse)?);
                continue;
            }
            // On a thread of its own, so that Ctrl-C is heard meanwhile.
            let read = tokio::task::spawn_blocking(|| std::io::read_to_string(std::io::stdin()));
            let input = read.await.map_err(std::io::Error::other).and_then(|input| input);
            let input = input.map_err(|error| refuse(format!("stdin cannot be read: {error}")))?;
            for line in input.lines().map(str::trim).filter(|line| !line.is_empty()) {
                leases.push(read_line(line).map_err(refuse)?);
            }
        }
        Ok(leases)
    }
}

/// A lease, or a leased message, in JSON; or the short form.
fn read_line(line: &str) -> Result<Lease, String> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Message { lease: Lease },
        Lease(Lease),
    }
    if !line.starts_with('{') {
        return value::lease(line);
    }
    match serde_json::from_str(line) {
        Ok(Form::Message { lease } | Form::Lease(lease)) => Ok(lease),
        Err(_) => Err(format!("{line} holds no lease, expected what `millpond lease --json` prints")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_read_in_every_form_in_which_it_is_printed() {
        let expected = Ok(Lease { message_id: "msg_1".to_owned(), lease_generation: 7, delivery: None });
        for line in [
            "msg_1@7",
            r#"{"message_id": "msg_1", "lease_generation": "7"}"#,
            r#"{"message_id": "x", "event": {}, "lease": {"message_id": "msg_1", "lease_generation": "7"}}"#,
        ] {
            assert_eq!(read_line(line), expected, "{line}");
        }
        let of_group = Lease { message_id: "msg_1".to_owned(), lease_generation: 7, delivery: Some(9) };
        for line in ["msg_1@7@9", r#"{"message_id": "msg_1", "lease_generation": "7", "delivery": "9"}"#] {
            assert_eq!(read_line(line).as_ref(), Ok(&of_group), "{line}");
        }
        assert!(read_line("{}").is_err() && read_line("x").is_err());
    }
}
