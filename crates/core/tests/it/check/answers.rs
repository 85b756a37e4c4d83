//! From outcomes to words, with the names that senders and consumers gave.

use millpond_core::Outcome;
use millpond_core::command::LeaseRef;
use millpond_core::outcome::{Grant, QueueView, Sent};

use super::words::{Words, refusal, show, why};
use super::world::World;

/// Counts that are not zero.
fn show_counts(counts: &[(&str, u64)]) -> String {
    let counts = counts.iter().filter(|(_, count)| *count > 0);
    counts.map(|(name, count)| format!("{name}={count} ")).collect()
}

fn show_view(view: &QueueView) -> String {
    let counters = &view.counters;
    let counts = show_counts(&[
        ("ready", counters.ready),
        ("delayed", counters.delayed),
        ("leased", counters.leased),
        ("dead", counters.dead),
        ("completed", counters.completed),
    ]);
    format!("{counts}why={}", why(view.why))
}

fn show_bytes(view: &QueueView) -> String {
    let counters = &view.counters;
    let bytes = show_counts(&[
        ("waiting", counters.waiting_bytes),
        ("leased", counters.leased_bytes),
        ("dead", counters.dead_bytes),
        ("finished", counters.finished_bytes),
    ]);
    format!("{bytes}in_all={}", counters.bytes())
}

impl World {
    pub(super) fn show(&mut self, words: &Words<'_>, outcome: &Outcome) -> String {
        match outcome {
            Outcome::Done => String::new(),
            Outcome::Waiting => "waits".to_owned(),
            Outcome::Leased(_) => {
                let queue = words.get("queue").unwrap_or("jobs").to_owned();
                self.show_leased(&queue, outcome)
            }
            Outcome::Purged(count) => format!("purged {count}"),
            Outcome::Queue(view) => {
                let (name, etag) = (view.queue.name.to_string(), view.etag());
                self.identities.insert(name, etag.split('-').next().unwrap_or_default().to_owned());
                match words.verb {
                    "show" if words.has("bytes") => show_bytes(view),
                    "show" => show_view(view),
                    "update" => {
                        format!("generation={} revision={}", view.queue.generation, view.queue.revision)
                    }
                    _ => String::new(),
                }
            }
            Outcome::Queues { views, .. } if views.is_empty() => "none".to_owned(),
            Outcome::Queues { views, more } => {
                let named = views.iter().map(|view| format!("{} {}", view.queue.name, show_view(view)));
                let more = more.then(|| "and more".to_owned());
                named.chain(more).collect::<Vec<_>>().join(", ")
            }
            Outcome::QueueDeleted(was_there) => {
                (if *was_there { "deleted" } else { "was not there" }).to_owned()
            }
            Outcome::Rejected(rejection) => refusal(rejection),
            Outcome::Repeated(first) => {
                format!("repeated: {}", self.show(words, first)).trim_end().to_owned()
            }
            Outcome::Sent(sent) => self.show_sent(&words.bare, sent),
            Outcome::Settled { stale, sent } => {
                let mut parts: Vec<String> = stale.iter().map(|lease| self.show_stale(lease)).collect();
                let names: Vec<&str> = words.all("send").filter_map(|text| text.split(':').nth(1)).collect();
                for (name, sent) in names.iter().zip(sent) {
                    parts.push(self.show_sent(&[name], sent));
                }
                parts.join(", ")
            }
            Outcome::Undone(count) => format!("undone {count}"),
        }
    }

    fn show_stale(&self, lease: &LeaseRef) -> String {
        let name = self.names.get(&lease.message).map_or("unknown", String::as_str);
        format!("stale {name}")
    }

    fn show_sent(&mut self, names: &[&str], sent: &Sent) -> String {
        if sent.repeated {
            let names = sent.ids.iter().map(|id| self.names.get(id).map_or("unknown", String::as_str));
            return format!("repeated {}", names.collect::<Vec<_>>().join(" "));
        }
        for (name, id) in names.iter().zip(&sent.ids) {
            assert!(self.messages.insert((*name).to_owned(), *id).is_none(), "{name} is taken");
            self.names.insert(*id, (*name).to_owned());
        }
        "sent".to_owned()
    }

    pub(super) fn show_leased(&mut self, queue: &str, outcome: &Outcome) -> String {
        match outcome {
            Outcome::Leased(grants) if grants.is_empty() => "nothing".to_owned(),
            Outcome::Leased(grants) => {
                grants.iter().map(|grant| self.show_grant(queue, grant)).collect::<Vec<_>>().join(", ")
            }
            Outcome::Rejected(rejection) => refusal(rejection),
            other => panic!("{other:?}"),
        }
    }

    fn show_grant(&mut self, queue: &str, grant: &Grant) -> String {
        let name = self.names.get(&grant.message).expect("a message that was sent").clone();
        let leases = self.leases.entry(name.clone()).or_default();
        let rises = leases.last().is_none_or(|(last, _)| last.generation < grant.generation);
        assert!(rises, "the generation of {name} does not rise");
        leases.push((grant.lease(), queue.to_owned()));
        let dead = grant.dead_letter.as_ref().map_or(String::new(), |dead| {
            format!(" dead_of={} reason={:?}", dead.queue, dead.reason).to_lowercase()
        });
        let number = leases.len();
        format!("{name}#{number} deliveries={} until={}{dead}", grant.delivery_count, show(grant.lease_until))
    }
}
