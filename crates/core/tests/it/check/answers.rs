//! From outcomes to words, with the names that senders and consumers gave.

use millpond_core::Outcome;
use millpond_core::command::LeaseRef;
use millpond_core::outcome::{Grant, Sent};

use super::words::{Words, refusal, show, why};
use super::world::World;

impl World {
    pub(super) fn show(&mut self, words: &Words<'_>, outcome: &Outcome) -> String {
        match outcome {
            Outcome::Data(view) => {
                let reader = words.get("as").unwrap_or("it").to_owned();
                let pinned = view.pin.map(|pin| self.pins.insert(reader, pin));
                (if pinned.is_some() { "data in chunks" } else { "data whole" }).to_owned()
            }
            Outcome::Done => {
                if words.verb == "append" {
                    let length = self.appended(words) as u64;
                    let (_, chunks, bytes) = self.uploads.get_mut(words.bare[0]).expect("an upload");
                    *chunks += 1;
                    *bytes += length;
                }
                String::new()
            }
            Outcome::UploadBegun(_) => self.show_begun(words.bare.first().copied().unwrap_or("it"), outcome),
            Outcome::Waiting => "waits".to_owned(),
            Outcome::Leased(_) => {
                let queue = words.get("queue").unwrap_or("jobs").to_owned();
                self.show_leased(&queue, outcome)
            }
            Outcome::Purged(count) => format!("purged {count}"),
            Outcome::Queue(view) if words.verb == "show" => {
                let counters = &view.counters;
                let counts = [
                    ("ready", counters.ready),
                    ("delayed", counters.delayed),
                    ("leased", counters.leased),
                    ("dead", counters.dead),
                    ("completed", counters.completed),
                ];
                let counts: String = counts
                    .iter()
                    .filter(|(_, count)| *count > 0)
                    .map(|(name, n)| format!("{name}={n} "))
                    .collect();
                format!("{counts}why={}", why(view.why))
            }
            Outcome::Queue(_) => String::new(),
            Outcome::QueueDeleted(was_there) => {
                (if *was_there { "deleted" } else { "was not there" }).to_owned()
            }
            Outcome::Rejected(rejection) => refusal(rejection),
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

    pub(super) fn show_begun(&mut self, name: &str, outcome: &Outcome) -> String {
        match outcome {
            Outcome::UploadBegun(None) => "remembered".to_owned(),
            Outcome::UploadBegun(Some(upload)) => {
                self.uploads.insert(name.to_owned(), (*upload, 0, 0));
                "begun".to_owned()
            }
            Outcome::Rejected(rejection) => refusal(rejection),
            other => panic!("{other:?}"),
        }
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
