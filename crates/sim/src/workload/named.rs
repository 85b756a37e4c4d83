//! Which queue, topic, group or partition a client has in mind.

use millpond_core::command::MessageRef;
use millpond_core::id::MessageId;
use millpond_core::row::Role;

use super::{NOBODY, Scene};
use crate::auditor::{Life, Message};
use crate::names::{self, Kind};
use crate::random::Random;

/// What a world is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Theme {
    /// Queues and topics.
    Both,
    /// Queues.
    Queues,
    /// Topics.
    Topics,
}

/// Ids of topics, of groups and of partitions.
const TOPICS: [&str; 4] = ["orders", "Prices_1", "events", "x"];
const GROUPS: [&str; 5] = ["billing", "search", "mail", "Audit-2", "g"];
const PARTITIONS: [&str; 5] = ["dpl_1", "dpl_2", "dpl_3", "dpl_4", "dpl_5"];
/// So many of a thousand sends to partitions are the first of a new deployment.
const DEPLOYED: u64 = 25;

impl Theme {
    /// One of them.
    pub fn draw(random: &mut Random) -> Self {
        match random.below(10) {
            0..4 => Self::Both,
            4..7 => Self::Queues,
            _ => Self::Topics,
        }
    }

    /// How many times as much is done in such a world as in others: about both as much as there about one.
    #[must_use]
    pub fn halves(self) -> u64 {
        if self == Self::Both { 2 } else { 1 }
    }

    /// So many queues, topics and parts of topics are made before anything else.
    #[must_use]
    pub fn names_to_begin_with(self) -> usize {
        if self == Self::Queues { 3 } else { 6 }
    }

    /// Whether the next thing is about topics.
    fn draw_topics(self, random: &mut Random) -> bool {
        match self {
            Self::Both => random.chance(500),
            Self::Queues => random.chance(3),
            Self::Topics => random.chance(990),
        }
    }
}

impl Scene<'_> {
    fn about_topics(&mut self) -> bool {
        self.workload.theme.draw_topics(self.random)
    }

    fn known(&mut self, wanted: impl Fn(Kind) -> bool) -> Option<Box<str>> {
        let known = self.auditor.names.keys().filter(|name| wanted(names::kind_of(name)));
        let known: Vec<_> = known.collect();
        self.random.pick(&known).map(|name| (*name).clone())
    }

    /// The name of a queue that is there, or now and then of one that may not be.
    pub(super) fn any_queue(&mut self) -> Box<str> {
        let known = self.known(|kind| kind == Kind::Queue).filter(|_| !self.random.chance(25));
        known.unwrap_or_else(|| self.random.pick(&self.workload.names).cloned().unwrap_or_default())
    }

    /// The same for what is only done with queues; now and then of a topic or a part of one.
    pub(super) fn queue(&mut self) -> Box<str> {
        let odd = self.random.chance(15) && self.workload.theme != Theme::Queues;
        let odd = odd.then(|| self.known(|kind| kind != Kind::Queue)).flatten();
        odd.unwrap_or_else(|| self.any_queue())
    }

    /// A topic that is there, or may be some day.
    pub(super) fn any_topic(&mut self) -> Box<str> {
        if self.random.chance(700) {
            return self.topic();
        }
        let id = self.random.pick(&TOPICS).copied().unwrap_or_default();
        format!("topics/{id}").into()
    }

    fn topic(&mut self) -> Box<str> {
        let known = self.known(|kind| kind == Kind::Topic).filter(|_| !self.random.chance(20));
        known.unwrap_or_else(|| {
            let id = self.random.pick(&TOPICS).copied().unwrap_or_default();
            format!("topics/{id}").into()
        })
    }

    pub(super) fn group(&mut self) -> Box<str> {
        let known = self.known(|kind| kind == Kind::Group).filter(|_| !self.random.chance(20));
        known.unwrap_or_else(|| self.new_group())
    }

    fn new_group(&mut self) -> Box<str> {
        let topic = self.topic();
        let id = self.random.pick(&GROUPS).copied().unwrap_or_default();
        format!("{topic}/groups/{id}").into()
    }

    fn new_partition(&mut self) -> Box<str> {
        let topic = self.topic();
        names::partition(&topic, self.partition_id())
    }

    /// A name that is not there, if that is found soon.
    fn missing(&mut self, draw: fn(&mut Self) -> Box<str>) -> Box<str> {
        let drawn = draw(self);
        if self.auditor.names.contains_key(&drawn) && self.random.chance(900) { draw(self) } else { drawn }
    }

    /// The id of a partition: for the most part that of the present deployment, or one of those before.
    pub(super) fn partition_id(&mut self) -> &'static str {
        if self.random.chance(700) {
            return PARTITIONS[self.workload.deployment % PARTITIONS.len()];
        }
        self.random.pick(&PARTITIONS).copied().unwrap_or_default()
    }

    /// Where messages are sent: now and then to what takes none.
    pub(super) fn destination(&mut self) -> Box<str> {
        if !self.about_topics() {
            return self.any_queue();
        }
        if self.random.chance(12) {
            return self.group();
        }
        let topic = self.topic();
        if self.random.chance(500) {
            return topic;
        }
        if self.random.chance(DEPLOYED) {
            self.workload.deployment += 1;
        }
        let id = self.partition_id();
        let wanted = names::partition(&topic, id);
        if self.auditor.names.contains_key(&wanted) || self.random.chance(100) { wanted } else { topic }
    }

    /// Where messages are leased from: now and then what gives none.
    pub(super) fn source(&mut self) -> Box<str> {
        if !self.about_topics() {
            return self.any_queue();
        }
        if self.random.chance(12) { self.log() } else { self.group() }
    }

    fn log(&mut self) -> Box<str> {
        let log = self.known(|kind| matches!(kind, Kind::Partition | Kind::Topic));
        log.unwrap_or_else(|| self.topic())
    }

    /// What messages can be looked at in: a queue, a topic or a partition, now and then a group.
    pub(super) fn shelf(&mut self) -> Box<str> {
        if !self.about_topics() {
            return self.any_queue();
        }
        if self.random.chance(30) { self.group() } else { self.log() }
    }

    /// Anything that has a name.
    pub(super) fn anything(&mut self) -> Box<str> {
        if !self.about_topics() {
            return self.any_queue();
        }
        match self.random.below(10) {
            0..3 => self.topic(),
            3..7 => self.group(),
            _ => self.log(),
        }
    }

    /// What is to be removed: topics seldom, because all goes with them.
    pub(super) fn victim(&mut self) -> Box<str> {
        if self.workload.theme != Theme::Queues && self.random.chance(500) {
            return self.new_group();
        }
        let name = self.anything();
        let spared = names::kind_of(&name) == Kind::Topic && self.random.chance(850);
        if spared { self.group() } else { name }
    }

    /// What is to be purged: topics seldom, because all groups lose by it.
    pub(super) fn purgeable(&mut self) -> Box<str> {
        if !self.about_topics() {
            return self.any_queue();
        }
        match self.random.below(10) {
            0 => self.topic(),
            1..4 => self.log(),
            _ => self.group(),
        }
    }

    /// What is to be made: for the most part what is not there.
    pub(super) fn newcomer(&mut self) -> Box<str> {
        if !self.about_topics() {
            return self.random.pick(&self.workload.names).cloned().unwrap_or_default();
        }
        let drawn = self.random.below(10);
        if drawn < 2 || self.known(|kind| kind == Kind::Topic).is_none() {
            let id = if self.random.chance(25) {
                "a.b"
            } else {
                self.random.pick(&TOPICS).copied().unwrap_or_default()
            };
            return format!("topics/{id}").into();
        }
        if drawn < 7 { self.missing(Self::new_group) } else { self.missing(Self::new_partition) }
    }

    /// Whose list is wanted.
    pub(super) fn topic_to_list(&mut self) -> Box<str> {
        if self.random.chance(950) { self.topic() } else { self.anything() }
    }

    /// A message and what it is known to be in; now and then something else, or a message that never was.
    pub(super) fn message(&mut self) -> MessageRef {
        let alive = self.auditor.messages.values().filter(|message| message.life == Life::Alive);
        let alive: Vec<_> = alive.map(|message| (message.id, message.queue)).collect();
        let drawn = self.random.pick(&alive).copied().filter(|_| !self.random.chance(100));
        let Some((message, number)) = drawn else {
            let gone: Vec<MessageId> = self.auditor.by_id.keys().copied().collect();
            let message = self.random.pick(&gone).copied().unwrap_or(NOBODY);
            return MessageRef { queue: self.shelf(), message };
        };
        let queue = self.auditor.queues.get(&number).map(|queue| queue.name.clone());
        let queue = queue.unwrap_or_else(|| self.shelf());
        // Messages of partitions are messages of the topic, too.
        match names::topic_of(&queue).map(Box::from) {
            Some(topic) if self.random.chance(300) => MessageRef { queue: topic, message },
            _ => MessageRef { queue, message },
        }
    }

    /// A message for a group to take by its id: for the most part one that it never had.
    pub(super) fn message_for(&mut self, group: &str) -> MessageId {
        let number = self.auditor.names.get(group).copied();
        let topic = number.and_then(|number| match self.auditor.queues.get(&number)?.role {
            Role::Group { topic } => Some(topic),
            _ => None,
        });
        let of_topic = |message: &&Message| {
            let log = self.auditor.queues.get(&message.queue);
            log.is_some_and(|log| match log.role {
                Role::Topic => Some(log.number) == topic,
                Role::Partition { topic: own } => Some(own) == topic,
                _ => false,
            })
        };
        let had = |message: &Message| self.auditor.delivery(number, &message.id).is_some();
        let alive = || self.auditor.messages.values().filter(|message| message.life == Life::Alive);
        let own = || alive().filter(of_topic);
        let drawn = self.random.below(100);
        let mut wanted: Vec<MessageId> = match drawn {
            0..58 => own().filter(|one| !had(one) && one.delay.is_zero()).map(|one| one.id).collect(),
            // The last ones may still be delayed.
            58..72 => own().filter(|one| !one.delay.is_zero()).map(|one| one.id).collect(),
            72..92 => own().filter(|one| had(one)).map(|one| one.id).collect(),
            92..96 => alive().map(|one| one.id).collect(),
            _ => self.auditor.by_id.keys().copied().collect(),
        };
        if (58..72).contains(&drawn) {
            wanted.drain(..wanted.len().saturating_sub(3));
        }
        if wanted.is_empty() {
            wanted = own().map(|one| one.id).collect();
        }
        self.random.pick(&wanted).copied().unwrap_or(NOBODY)
    }
}
