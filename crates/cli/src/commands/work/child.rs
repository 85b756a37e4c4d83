//! One command on one message: its stdin, its environment, and how it is ended when its lease is lost.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::fd::AsFd as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use millpond_client::{CancellationToken, Client, Delivery, ErrorCode, LeasedMessage};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};

use crate::commands::reader::Reader;

/// How long a command that is told to end may take over it.
const END_MAX: Duration = Duration::from_secs(5);
/// How often it is looked meanwhile whether anything is left of it.
const LOOK: Duration = Duration::from_millis(20);
/// The wait before data that the server could not give is asked for again.
const DATA_AGAIN: Duration = Duration::from_secs(1);

/// Variables that say what a message was taken from; which of them there are depends on that.
const OF_READER: [&str; 4] = ["MILLPOND_QUEUE", "MILLPOND_TOPIC", "MILLPOND_GROUP", "MILLPOND_DELIVERY"];

const LEASE_LOST: &str = "its lease was lost";
const TOLD_TO_STOP: &str = "this worker was told to stop";

/// Runs the command.
pub(super) struct Runner {
    pub(super) command: String,
    pub(super) reader: Reader,
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
    /// It is not the message's fault: this machine could not run any command.
    pub(super) is_fault: bool,
}

impl Ended {
    fn not_run(reason: String) -> Self {
        Self { code: None, result: Err(reason), is_fault: false }
    }

    fn fault(reason: String) -> Self {
        Self { is_fault: true, ..Self::not_run(reason) }
    }

    fn not_begun(reason: &str) -> Self {
        Self::not_run(format!("the command was not begun, as {reason}"))
    }

    fn of(status: ExitStatus) -> Self {
        let result = if status.success() { Ok(()) } else { Err(format!("the command ended with {status}")) };
        Self { code: status.code(), result, is_fault: false }
    }
}

impl Runner {
    pub(super) async fn run(&self, delivery: Delivery) -> Ended {
        let data = tokio::select! {
            biased;
            () = delivery.lost.cancelled() => return Ended::not_begun(LEASE_LOST),
            () = self.kill.cancelled() => return Ended::not_begun(TOLD_TO_STOP),
            data = self.data_of(&delivery.message) => data,
        };
        let data = match data {
            Ok(data) => data,
            Err(ended) => return ended,
        };
        let mut child = match self.command_for(&delivery.message).and_then(|mut command| command.spawn()) {
            Ok(child) => child,
            Err(error) => {
                let reason = format!("sh cannot be run: {error}");
                return if is_of_message(error.kind()) {
                    Ended::not_run(reason)
                } else {
                    Ended::fault(reason)
                };
            }
        };
        let group = Group::of(&child);
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
            () = delivery.lost.cancelled() => return ended(child, group, LEASE_LOST).await,
            () = self.kill.cancelled() => return ended(child, group, TOLD_TO_STOP).await,
        };
        group.let_go();
        match status {
            Ok(status) => Ended::of(status),
            Err(error) => Ended::fault(format!("the command cannot be waited for: {error}")),
        }
    }

    fn command_for(&self, message: &LeasedMessage) -> std::io::Result<Command> {
        let mut command = Command::new("sh");
        // This worker may itself be another message's command.
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_one_message(name)) {
            command.env_remove(name);
        }
        command.arg("-c").arg(&self.command).envs(self.environment.iter().cloned());
        command.envs(variables(&self.reader, message));
        command.stdin(Stdio::piped()).process_group(0).kill_on_drop(true);
        if self.keep_stdout {
            command.stdout(Stdio::from(std::io::stderr().as_fd().try_clone_to_owned()?));
        }
        Ok(command)
    }

    /// The data, wherever it is. A server that is away is waited for.
    async fn data_of(&self, message: &LeasedMessage) -> Result<Vec<u8>, Ended> {
        let Some(data) = &message.event.data else { return Ok(Vec::new()) };
        if let Some(bytes) = data.bytes() {
            return Ok(bytes.into_owned());
        }
        let generation = Some(message.lease.lease_generation);
        loop {
            let fetched =
                self.client.message_data(self.reader.home(), &message.message_id, generation, None).await;
            let error = match fetched {
                Ok(fetched) => return Ok(fetched.bytes.to_vec()),
                Err(error) => error,
            };
            let reason = format!("its data cannot be read: {error}");
            match error.code() {
                Some(ErrorCode::LeaseStale | ErrorCode::MessageNotFound) => {
                    return Err(Ended::not_run(reason));
                }
                _ if error.is_retryable() => {
                    tokio::time::sleep(DATA_AGAIN.max(error.retry_after().unwrap_or_default())).await;
                }
                _ => return Err(Ended::fault(reason)),
            }
        }
    }
}

/// The process group of a command. What is left of it is killed if it is dropped without being let go.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)))
    }

    fn signal(&self, signal: Signal) -> bool {
        self.0.is_some_and(|group| kill_process_group(group, signal).is_ok())
    }

    fn is_left(&self) -> bool {
        self.0.is_some_and(|group| test_kill_process_group(group).is_ok())
    }

    fn let_go(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Ends the command and all that it has started: kindly, then not.
async fn ended(mut child: Child, group: Group, reason: &str) -> Ended {
    group.signal(Signal::TERM);
    let over = async {
        let status = child.wait().await;
        // The shell may be gone long before what it has started. Its id is given to nobody else as long as anything is left
        // of its group, so what is looked for is still the same.
        while group.is_left() {
            tokio::time::sleep(LOOK).await;
        }
        status
    };
    let status = if let Ok(status) = tokio::time::timeout(END_MAX, over).await {
        group.let_go();
        status
    } else {
        drop(group);
        child.wait().await
    };
    let code = status.ok().and_then(|status| status.code());
    Ended { code, result: Err(format!("the command was ended, as {reason}")), is_fault: false }
}

/// Whether a command could not be run because of what its message holds: attributes that are too long for an environment, or
/// have a NUL.
fn is_of_message(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::ArgumentListTooLong | ErrorKind::InvalidInput)
}

const EXTENSION: &str = "MILLPOND_EXTENSION_";
/// Those that every message has are set anew each time.
const OPTIONAL: [&str; 4] =
    ["MILLPOND_SUBJECT", "MILLPOND_TIME", "MILLPOND_CONTENT_TYPE", "MILLPOND_DATA_SCHEMA"];

/// Whether a variable tells of one message and may be absent for another.
fn is_of_one_message(name: &OsStr) -> bool {
    let own = |name: &str| OF_READER.contains(&name) || OPTIONAL.contains(&name);
    name.to_str().is_some_and(|name| name.starts_with(EXTENSION) || own(name))
}

/// What a command learns from its environment.
fn variables(reader: &Reader, message: &LeasedMessage) -> Vec<(OsString, OsString)> {
    let event = &message.event;
    let expires = humantime::format_rfc3339_millis(message.lease_expire_time).to_string();
    let mut variables = vec![
        ("MILLPOND_MESSAGE_ID".to_owned(), message.message_id.clone()),
        ("MILLPOND_DELIVERY_COUNT".to_owned(), message.delivery_count.to_string()),
        ("MILLPOND_LEASE_GENERATION".to_owned(), message.lease.lease_generation.to_string()),
        ("MILLPOND_LEASE_EXPIRE_TIME".to_owned(), expires),
        ("MILLPOND_EVENT_ID".to_owned(), event.id.clone()),
        ("MILLPOND_SOURCE".to_owned(), event.source.clone()),
        ("MILLPOND_TYPE".to_owned(), event.kind.clone()),
    ];
    let [queue, topic, group, delivery] = OF_READER.map(str::to_owned);
    match reader {
        Reader::Queue(name) => variables.push((queue, name.clone())),
        Reader::Group { topic: name, group: id, .. } => {
            variables.extend([(topic, name.clone()), (group, id.clone())]);
            variables.extend(message.lease.delivery.map(|number| (delivery, number.to_string())));
        }
    }
    let optional = [&event.subject, &event.time, &event.data_content_type, &event.data_schema];
    variables.extend(
        OPTIONAL.iter().zip(optional).filter_map(|(name, value)| Some(((*name).to_owned(), value.clone()?))),
    );
    for (name, value) in &event.extensions {
        variables.push((format!("{EXTENSION}{}", name.to_ascii_uppercase()), value.to_string()));
    }
    variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_message_holds_is_its_own_fault_and_the_rest_this_machines() {
        let spawn =
            |value: String| Command::new("true").env("X", value).spawn().expect_err("too long").kind();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            assert!(is_of_message(spawn("x".repeat(16 << 20))));
            assert!(is_of_message(spawn("a\0b".to_owned())));
        });
        assert!(!is_of_message(ErrorKind::NotFound) && !is_of_message(ErrorKind::OutOfMemory));
    }
}
