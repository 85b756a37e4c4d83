//! One trigger as it pushes: how it reads, how its target stands, and the tasks that lease for it, one a topic.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millpond_core::command::Reading;
use millpond_core::outcome::TriggerView;
use millpond_core::row::TriggerRow;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinHandle;

use crate::circuit::Circuit;
use crate::lane;
use crate::pusher::{Pushed, Shared};
use crate::record::{Record, Records, Statistics};

pub(crate) struct Feed {
    pub(crate) environment: Arc<Pushed>,
    pub(crate) standing: Arc<Standing>,
    view: TriggerView,
    lanes: Mutex<HashMap<Box<str>, JoinHandle<()>>>,
    stopped: watch::Sender<bool>,
}

/// What stays of a trigger when the way in which it is read changes.
pub(crate) struct Standing {
    /// Room for pushes under way.
    pub(crate) calls: Arc<Semaphore>,
    pub(crate) circuit: Mutex<Circuit>,
    /// Held by whoever tells the core how the target stands.
    pub(crate) reporting: tokio::sync::Mutex<()>,
    /// The target's state changed.
    pub(crate) turned: Notify,
    records: Mutex<Records>,
    calls_max: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Standing {
    pub(crate) fn new(calls: usize) -> Self {
        Self {
            calls: Arc::new(Semaphore::new(calls)),
            circuit: Mutex::default(),
            reporting: tokio::sync::Mutex::default(),
            turned: Notify::new(),
            records: Mutex::default(),
            calls_max: calls,
        }
    }

    pub(crate) fn circuit(&self) -> MutexGuard<'_, Circuit> {
        lock(&self.circuit)
    }

    pub(crate) fn record(&self, record: Record) {
        lock(&self.records).add(record);
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let in_flight = self.calls_max.saturating_sub(self.calls.available_permits());
        lock(&self.records).statistics(in_flight)
    }
}

impl Feed {
    pub(crate) fn new(environment: Arc<Pushed>, view: &TriggerView, standing: Arc<Standing>) -> Self {
        let view = TriggerView { trouble: None, ..view.clone() };
        Self { environment, standing, view, lanes: Mutex::default(), stopped: watch::Sender::new(false) }
    }

    pub(crate) fn trigger(&self) -> &TriggerRow {
        &self.view.trigger
    }

    /// Whether it reads what this says.
    pub(crate) fn is_of(&self, view: &TriggerView) -> bool {
        self.view.trigger == view.trigger && self.view.current == view.current
    }

    /// What it reads of its group.
    pub(crate) fn reading(&self) -> Reading {
        let partition = self.view.trigger.deployment.clone();
        Reading { partition, unpinned: self.view.current, pushes: true, ..Reading::default() }
    }

    /// Pushes what comes of a topic from now on, unless it does.
    pub(crate) fn begin(self: &Arc<Self>, shared: &Arc<Shared>, topic: &str) {
        if self.is_stopped() {
            return;
        }
        let mut lanes = lock(&self.lanes);
        if lanes.get(topic).is_none_or(JoinHandle::is_finished) {
            let lane = lane::run(Arc::clone(shared), Arc::clone(self), topic.into());
            let (feed, ended) = (Arc::clone(self), Box::<str>::from(topic));
            let lane = async move {
                lane.await;
                // One that ends by itself, because its topic is gone, leaves nothing behind.
                lock(&feed.lanes).remove(&ended);
            };
            lanes.insert(topic.into(), tokio::spawn(lane));
        }
    }

    /// The same, in the place of what may be there for the topic.
    pub(crate) async fn begin_anew(self: &Arc<Self>, shared: &Arc<Shared>, topic: &str) {
        let old = lock(&self.lanes).remove(topic);
        if let Some(lane) = old {
            lane.abort();
            // It was told to end: that it was cut short is no failure.
            let _ = lane.await;
        }
        self.begin(shared, topic);
    }

    /// Leases nothing any more. Calls under way go on.
    pub(crate) async fn stop(&self) {
        self.stopped.send_replace(true);
        let lanes: Vec<_> = lock(&self.lanes).drain().map(|(_, lane)| lane).collect();
        lanes.iter().for_each(JoinHandle::abort);
        for lane in lanes {
            // It was told to end: that it was cut short is no failure.
            let _ = lane.await;
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        *self.stopped.borrow()
    }

    /// Until it is stopped.
    pub(crate) async fn until_stopped(&self) {
        // The sender is here.
        let _ = self.stopped.subscribe().wait_for(|stopped| *stopped).await;
    }
}
