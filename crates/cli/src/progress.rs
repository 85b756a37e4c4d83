//! Progress on stderr, if that is a terminal; nothing at all elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use millpond_client::{Client, QueueStatus};

/// How often the spinner turns.
const TURN: Duration = Duration::from_millis(100);
/// How often counts are asked for while a long call runs.
const LOOK: Duration = Duration::from_millis(500);
const BYTES: &str = "{bar:30} {binary_bytes}/{binary_total_bytes} {msg} {eta}";
const MESSAGES: &str = "{bar:30} {pos}/{len} {msg} {eta}";

/// A bar over so many bytes of input.
pub(crate) fn of_bytes(total: u64) -> ProgressBar {
    ProgressBar::new(total).with_style(style(BYTES))
}

/// A bar over so many messages.
pub(crate) fn of_messages(total: u64) -> ProgressBar {
    ProgressBar::new(total).with_style(style(MESSAGES))
}

/// A bar over pages of a database, so many as they turn out to be.
pub(crate) fn of_pages() -> ProgressBar {
    ProgressBar::new(0).with_style(style("{bar:30} {pos}/{len} pages {msg} {eta}"))
}

/// A bar over rows, so many as they turn out to be.
pub(crate) fn of_rows() -> ProgressBar {
    ProgressBar::new(0).with_style(style("{bar:30} {pos}/{len} rows {eta}"))
}

/// A bar over environments.
pub(crate) fn of_environments(total: usize) -> ProgressBar {
    ProgressBar::new(total as u64).with_style(style("{bar:30} {pos}/{len} environments {msg}"))
}

/// Something whose end is not known.
pub(crate) fn spinner() -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_style(style("{spinner} {msg} {elapsed}"));
    bar.enable_steady_tick(TURN);
    bar
}

/// Waits for a call that works through a queue, and shows meanwhile how far it is: what is `left` gets less.
pub(crate) async fn while_counting<T>(
    client: &Client,
    queue: &str,
    doing: &str,
    left: impl Fn(&QueueStatus) -> u64,
    call: impl Future<Output = T>,
) -> T {
    let bar = spinner();
    bar.set_message(doing.to_owned());
    let mut call = std::pin::pin!(call);
    let answer = loop {
        let look = async {
            if bar.is_hidden() {
                // Without a terminal nobody sees it.
                return std::future::pending().await;
            }
            if bar.length().is_some() {
                tokio::time::sleep(LOOK).await;
            }
            client.get_queue(queue).await
        };
        tokio::select! {
            answer = call.as_mut() => break answer,
            // If looking fails there is nothing more to show; what is wrong will show in the call itself.
            Ok(queue) = look => {
                let left = left(&queue.status);
                if bar.length().is_none() {
                    bar.set_style(style(MESSAGES));
                }
                let total = bar.length().unwrap_or(0).max(left);
                bar.set_length(total);
                bar.set_position(total - left);
            }
        }
    };
    bar.finish_and_clear();
    answer
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is one of ours")
}
