//! Progress on stderr, if that is a terminal; nothing at all elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use millpond_client::Client;

/// How often the spinner turns.
const TURN: Duration = Duration::from_millis(100);
/// How often counts are asked for while a long call runs.
const LOOK: Duration = Duration::from_millis(500);
const TEMPLATE_SOUND: &str = "the template is one of ours";

/// A bar over so many bytes of input.
pub(crate) fn of_bytes(total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {binary_bytes}/{binary_total_bytes} {msg} {eta}");
    ProgressBar::new(total).with_style(style.expect(TEMPLATE_SOUND))
}

/// A bar over so many messages.
pub(crate) fn of_messages(total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} {eta}");
    ProgressBar::new(total).with_style(style.expect(TEMPLATE_SOUND))
}

/// Something whose end is not known.
pub(crate) fn spinner() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}").expect(TEMPLATE_SOUND);
    let bar = ProgressBar::new_spinner().with_style(style);
    bar.enable_steady_tick(TURN);
    bar
}

/// Waits for a call that works through a queue, and shows meanwhile what is left of it.
pub(crate) async fn while_counting<T>(
    client: &Client,
    queue: &str,
    doing: &str,
    call: impl Future<Output = T>,
) -> T {
    let bar = spinner();
    bar.set_message(doing.to_owned());
    let mut call = std::pin::pin!(call);
    let answer = loop {
        tokio::select! {
            answer = call.as_mut() => break answer,
            () = tokio::time::sleep(LOOK) => {
                // Without a terminal nobody sees it; a failure will show in the call itself.
                if !bar.is_hidden() && let Ok(queue) = client.get_queue(queue).await {
                    let status = queue.status;
                    let waiting = status.ready_count + status.delayed_count;
                    bar.set_message(format!("{doing}: {waiting} waiting, {} dead", status.dead_letter_count));
                }
            }
        }
    };
    bar.finish_and_clear();
    answer
}
