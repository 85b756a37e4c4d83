//! One command on one message: its stdin, its environment, and how it is ended when its lease is lost.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use millpond_client::{CancellationToken, Client, Delivery, LeasedMessage};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};

/// How long a command that is told to end may take over it.
const END_MAX: Duration = Duration::from_secs(5);

/// Runs the command.
pub(super) struct Runner {
    pub(super) command: String,
    pub(super) queue: String,
    /// Variables by which a command that is itself `millpond` finds the same server.
    pub(super) environment: Vec<(&'static str, String)>,
    /// Its stdout goes to stderr, as stdout holds JSON.
    pub(super) keep_stdout: bool,
    pub(super) kill: CancellationToken,
    pub(super) client: Client,
}

/// How a command ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// Its exit code, if it had one.
    pub(super) code: Option<i32>,
    /// Done, or why not.
    pub(super) result: Result<(), String>,
}

impl Ended {
    fn not_run(reason: String) -> Self {
        Self { code: None, result: Err(reason) }
    }

    fn of(status: ExitStatus) -> Self {
        let result = if status.success() { Ok(()) } else { Err(format!("the command ended with {status}")) };
        Self { code: status.code(), result }
    }
}

impl Runner {
    pub(super) async fn run(&self, delivery: Delivery) -> Ended {
        let data = match self.data_of(&delivery.message).await {
            Ok(data) => data,
            Err(reason) => return Ended::not_run(reason),
        };
        let mut child = match self.command_for(&delivery.message).and_then(|mut command| command.spawn()) {
            Ok(child) => child,
            Err(error) => return Ended::not_run(format!("sh cannot be run: {error}")),
        };
        let mut stdin = child.stdin.take();
        let feed = async {
            if let Some(stdin) = &mut stdin {
                // A command that does not read all of its data may have its reasons.
                let _: std::io::Result<()> = stdin.write_all(&data).await;
            }
            drop(stdin.take());
            // Only the end of the command counts: what it leaves behind may keep its stdin open.
            std::future::pending::<Infallible>().await
        };
        let status = tokio::select! {
            status = child.wait() => status,
            never = feed => match never {},
            () = delivery.lost.cancelled() => return self.ended(child, "its lease was lost").await,
            () = self.kill.cancelled() => return self.ended(child, "this worker was told to stop").await,
        };
        match status {
            Ok(status) => Ended::of(status),
            Err(error) => Ended::not_run(format!("the command cannot be waited for: {error}")),
        }
    }

    fn command_for(&self, message: &LeasedMessage) -> std::io::Result<Command> {
        let mut command = Command::new("sh");
        command.arg("-c").arg(&self.command).envs(self.environment.iter().cloned());
        command.envs(variables(&self.queue, message));
        command.stdin(Stdio::piped()).process_group(0).kill_on_drop(true);
        if self.keep_stdout {
            command.stdout(Stdio::from(std::io::stderr().as_fd().try_clone_to_owned()?));
        }
        Ok(command)
    }

    /// The data, wherever it is.
    async fn data_of(&self, message: &LeasedMessage) -> Result<Vec<u8>, String> {
        let Some(data) = &message.event.data else { return Ok(Vec::new()) };
        if let Some(bytes) = data.bytes() {
            return Ok(bytes.into_owned());
        }
        let generation = Some(message.lease.lease_generation);
        let fetched = self.client.message_data(&self.queue, &message.message_id, generation, None).await;
        let fetched = fetched.map_err(|error| format!("its data cannot be read: {error}"))?;
        Ok(fetched.bytes.to_vec())
    }

    /// Ends the command and all that it has started: kindly, then not.
    async fn ended(&self, mut child: Child, reason: &str) -> Ended {
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let signal = |signal| group.is_some_and(|group| kill_process_group(group, signal).is_ok());
        if signal(Signal::TERM) && tokio::time::timeout(END_MAX, child.wait()).await.is_err() {
            signal(Signal::KILL);
        }
        let code = child.wait().await.ok().and_then(|status| status.code());
        Ended { code, result: Err(format!("the command was ended, as {reason}")) }
    }
}

/// What a command learns from its environment.
fn variables(queue: &str, message: &LeasedMessage) -> Vec<(OsString, OsString)> {
    let event = &message.event;
    let expires = humantime::format_rfc3339_millis(message.lease_expire_time).to_string();
    let mut variables = vec![
        ("MILLPOND_QUEUE".to_owned(), queue.to_owned()),
        ("MILLPOND_MESSAGE_ID".to_owned(), message.message_id.clone()),
        ("MILLPOND_DELIVERY_COUNT".to_owned(), message.delivery_count.to_string()),
        ("MILLPOND_LEASE_GENERATION".to_owned(), message.lease.lease_generation.to_string()),
        ("MILLPOND_LEASE_EXPIRE_TIME".to_owned(), expires),
        ("MILLPOND_EVENT_ID".to_owned(), event.id.clone()),
        ("MILLPOND_SOURCE".to_owned(), event.source.clone()),
        ("MILLPOND_TYPE".to_owned(), event.kind.clone()),
    ];
    let optional = [
        ("MILLPOND_SUBJECT", &event.subject),
        ("MILLPOND_TIME", &event.time),
        ("MILLPOND_CONTENT_TYPE", &event.data_content_type),
        ("MILLPOND_DATA_SCHEMA", &event.data_schema),
    ];
    variables.extend(
        optional.iter().filter_map(|(name, value)| Some(((*name).to_owned(), value.as_ref()?.clone()))),
    );
    for (name, value) in &event.extensions {
        variables.push((format!("MILLPOND_EXTENSION_{}", name.to_ascii_uppercase()), value.to_string()));
    }
    variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}
