//! From outcomes to words, with the names that senders and consumers gave.

use millpond_core::Outcome;
use millpond_core::command::LeaseRef;
use millpond_core::id::MessageId;
use millpond_core::outcome::{Browsed, Grant, QueueView, Sent, Stale, TriggerView, WhyStale};
use millpond_core::row::{DeadLetter, DeliveryRow};
use millpond_core::time::Timestamp;

use super::triggers;
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
    format!("{counts}why={}", why(view.why.clone()))
}

fn show_dead(dead: Option<&DeadLetter>) -> String {
    let dead = dead.map(|dead| format!(" dead_of={} reason={:?}", dead.queue, dead.reason));
    dead.unwrap_or_default().to_lowercase()
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
            Outcome::Data(view) => {
                let reader = words.get("as").unwrap_or("it").to_owned();
                let pinned = view.pin.map(|pin| self.pins.insert(reader, pin));
                (if pinned.is_some() { "data in chunks" } else { "data whole" }).to_owned()
            }
            Outcome::Done => {
                self.note_done(words);
                String::new()
            }
            Outcome::UploadBegun(_) => self.show_begun(words.bare.first().copied().unwrap_or("it"), outcome),
            Outcome::Waiting if words.verb == "browse" => String::new(),
            Outcome::Waiting => "waits".to_owned(),
            Outcome::Browsed(page) => self.show_page(page),
            Outcome::Message(row) => self.show_row(row),
            Outcome::MessageDeleted => "removed".to_owned(),
            Outcome::Tallied(tally) => format!("{} done, {} skipped", tally.done, tally.skipped),
            Outcome::Moved { moved, skipped } => {
                let queue = |number| self.queues.get(number).map_or("unknown", String::as_str);
                let moved = moved.iter().map(|(id, to)| format!("{} to {}", self.name_of(id), queue(to)));
                self.show_done(moved.collect(), skipped)
            }
            Outcome::Revived { revived, skipped } => {
                let revived = revived.iter().map(|id| self.name_of(id).to_owned());
                self.show_done(revived.collect(), skipped)
            }
            Outcome::Leased(_) => {
                let queue = words.get("queue").unwrap_or("jobs").to_owned();
                self.show_leased(&queue, outcome)
            }
            Outcome::LeaseHeld(until) => match until {
                Some(until) => format!("held until={}", show(*until)),
                None => "not held".to_owned(),
            },
            Outcome::Triggers(views) => self.show_triggers(views),
            Outcome::Secret(secret) => triggers::show_secret(secret),
            Outcome::Purged(count) => format!("purged {count}"),
            Outcome::Queue(view) => {
                let (name, etag) = (view.queue.name.to_string(), view.etag());
                self.queues.insert(view.queue.number, name.clone());
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
            Outcome::Settled { stale, sent } => self.show_settled(words, stale, sent),
            Outcome::Undone(count) => format!("undone {count}"),
        }
    }

    fn show_triggers(&mut self, views: &[TriggerView]) -> String {
        for view in views {
            self.triggers.entry(view.trigger.id.clone()).or_insert(view.trigger.uid);
        }
        triggers::show(views)
    }

    fn show_settled(&mut self, words: &Words<'_>, stale: &[Stale], sent: &[Sent]) -> String {
        let mut parts: Vec<String> = stale.iter().map(|lease| self.show_stale(lease)).collect();
        let names: Vec<&str> = words.all("send").filter_map(|text| text.split(':').nth(1)).collect();
        for (name, sent) in names.iter().zip(sent) {
            parts.push(self.show_sent(&[name], sent));
        }
        parts.join(", ")
    }

    fn note_done(&mut self, words: &Words<'_>) {
        if words.verb == "append" {
            let length = self.appended(words) as u64;
            let (_, chunks, bytes) = self.uploads.get_mut(words.bare[0]).expect("an upload");
            *chunks += 1;
            *bytes += length;
        }
    }

    fn name_of(&self, id: &MessageId) -> &str {
        self.names.get(id).map_or("unknown", String::as_str)
    }

    fn show_done(&self, mut done: Vec<String>, skipped: &[MessageId]) -> String {
        if done.is_empty() {
            done.push("nothing".to_owned());
        }
        done.extend(skipped.iter().map(|id| format!("skipped {}", self.name_of(id))));
        done.join(", ")
    }

    pub(super) fn show_page(&self, page: &Browsed) -> String {
        let mut names: Vec<_> = page.deliveries.iter().map(|row| self.name_of(&row.message_id())).collect();
        if names.is_empty() {
            names.push("nothing");
        }
        names.extend(page.next.map(|_| "and more"));
        names.join(", ")
    }

    fn show_row(&self, row: &DeliveryRow) -> String {
        let (name, state) = (self.name_of(&row.message_id()), format!("{:?}", row.state).to_lowercase());
        let counts =
            [row.delivery_count, row.failure_count, row.lost_lease_count].map(|count| count.to_string());
        let due = show(row.due_at);
        let expires =
            if row.expires_at == Timestamp::NEVER { "never".to_owned() } else { show(row.expires_at) };
        let dead = show_dead(row.dead_letter.as_deref());
        format!("{name} {state} counts={} due={due} expires={expires}{dead}", counts.join("/"))
    }

    fn show_stale(&self, stale: &Stale) -> String {
        let why = match stale.why {
            WhyStale::Over => String::new(),
            why => format!(" {why:?}").to_lowercase(),
        };
        format!("stale {}{why}", self.name_of(&stale.lease.message))
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
        // A dead letter of a group has an id of its own.
        let copies = self.names.values().filter(|name| name.starts_with("copy")).count();
        let name = self.names.entry(grant.message).or_insert_with(|| format!("copy{}", copies + 1)).clone();
        self.messages.insert(name.clone(), grant.message);
        let leases = self.leases.entry(name.clone()).or_default();
        let same = |(last, _): &(LeaseRef, String)| *last == grant.lease();
        if let Some(number) = leases.iter().position(same) {
            let (count, until) = (grant.delivery_count, show(grant.lease_until));
            return format!("{name}#{} as before deliveries={count} until={until}", number + 1);
        }
        let mut of_this = leases.iter().filter(|(last, _)| last.delivery == grant.delivery);
        let rises = of_this
            .all(|(last, _)| last.generation < grant.generation || grant.lease_until == grant.leased_at);
        assert!(rises, "the generation of {name} does not rise");
        leases.push((grant.lease(), queue.to_owned()));
        let dead = show_dead(grant.dead_letter.as_deref());
        let number = leases.len();
        format!("{name}#{number} deliveries={} until={}{dead}", grant.delivery_count, show(grant.lease_until))
    }
}
