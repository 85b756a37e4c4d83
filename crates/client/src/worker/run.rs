//! One run of a worker: a loop over what can happen next. Everything is decided here, on one task; functions and calls
//! run beside it.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::holds::{Holds, LEASES_PER_CALL_MAX};
use super::patience;
use super::standing::Standing;
use super::{Delivery, Nack, Tally, WAIT, Worker, WorkerEvent};
use crate::client::Client;
use crate::error::{Error, ErrorCode};
use crate::message::{Lease, LeasedMessage};
use crate::request::LeaseOptions;
use crate::source::Source;

/// The queue's timeout, should the server not say.
const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait for messages before it is asked again whether the queue is empty.
const EMPTY_WAIT: Duration = Duration::from_secs(1);

type Call<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What a lease call came to.
enum Took {
    Messages(Vec<LeasedMessage>),
    /// None came, and this is how the queue is: nothing left, paused.
    Nothing {
        empty: bool,
        paused: bool,
    },
    Failed(Error),
}

/// A message that was worked on, or not begun, and how it ended.
#[derive(Debug)]
struct Ended {
    lease: Lease,
    result: Result<(), Nack>,
    begun: bool,
}

/// What a call does with its leases.
#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Ack,
    Nack(Option<Duration>),
}

impl Ended {
    fn verdict(&self) -> Verdict {
        match &self.result {
            Ok(()) => Verdict::Ack,
            Err(nack) => Verdict::Nack(nack.delay),
        }
    }
}

struct Renewal {
    leases: Vec<Lease>,
    begun: Instant,
    stale: Result<Vec<Lease>, Error>,
}

struct Run<'a> {
    worker: &'a Worker,
    stop: CancellationToken,
    holds: Holds,
    running: JoinSet<Result<(), Nack>>,
    leases: HashMap<Id, Lease>,
    ended: VecDeque<Ended>,
    /// Messages that are in the settling call.
    settling: usize,
    /// Leases without messages in a row.
    idle: u32,
    /// Lease calls that failed, in a row, and since when.
    failures: u32,
    /// What the server asked for with the last of them.
    retry_after: Duration,
    failing_since: Option<Instant>,
    told_paused: bool,
    /// Nothing more is taken.
    stopping: bool,
    failure: Option<Error>,
    tally: Tally,
}

pub(super) async fn run<F, Fut>(
    worker: &Worker,
    stop: CancellationToken,
    function: Arc<F>,
) -> Result<Tally, Error>
where
    F: Fn(Delivery) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), Nack>> + Send + 'static,
{
    // Also when the timeout is given: a queue that is not there is told at once.
    let standing = tokio::select! {
        biased;
        () = stop.cancelled() => return Ok(Tally::default()),
        () = worker.abandon.cancelled() => return Ok(Tally::default()),
        standing = Standing::of(&worker.client, &worker.source) => standing?,
    };
    let own = standing.visibility_timeout.unwrap_or(VISIBILITY_TIMEOUT);
    let mut run = Run {
        worker,
        stop,
        holds: Holds::new(worker.visibility_timeout.unwrap_or(own)),
        running: JoinSet::new(),
        leases: HashMap::new(),
        ended: VecDeque::new(),
        settling: 0,
        idle: 0,
        failures: 0,
        retry_after: Duration::ZERO,
        failing_since: None,
        told_paused: false,
        stopping: false,
        failure: None,
        tally: Tally::default(),
    };
    let abandoned = tokio::select! {
        biased;
        () = worker.abandon.cancelled() => true,
        () = run.work(function) => false,
    };
    if abandoned {
        // The functions are dropped before anybody hears of the end.
        run.running.shutdown().await;
    }
    match run.failure {
        Some(error) => Err(error),
        None => Ok(run.tally),
    }
}

impl Run<'_> {
    async fn work<F, Fut>(&mut self, function: Arc<F>)
    where
        F: Fn(Delivery) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Nack>> + Send + 'static,
    {
        let mut taking: Option<Call<Took>> = None;
        let mut settle: Option<Call<Vec<(Ended, bool)>>> = None;
        let mut renewals: JoinSet<Renewal> = JoinSet::new();
        let stop = self.stop.clone();
        loop {
            if taking.is_none() {
                taking = self.take();
            }
            if settle.is_none() {
                settle = self.settle();
            }
            self.renew(&mut renewals);
            if taking.is_none() && settle.is_none() && self.running.is_empty() {
                return;
            }
            let next_at = self.holds.next_at();
            tokio::select! {
                // A lease that comes together with the stop is given back, not forgotten.
                biased;
                took = either(&mut taking) => {
                    taking = None;
                    self.took(took, &function);
                }
                () = stop.cancelled(), if !self.stopping => {
                    self.stopping = true;
                    taking = None;
                }
                settled = either(&mut settle) => {
                    settle = None;
                    self.settled(settled);
                }
                Some(finished) = self.running.join_next_with_id() => self.finished(finished),
                Some(Ok(renewal)) = renewals.join_next() => self.renewed(renewal, &mut renewals),
                () = at(next_at) => self.told_lost(Instant::now()),
            }
        }
    }

    /// A call that takes as much as can be begun at once.
    fn take(&self) -> Option<Call<Took>> {
        let busy = self.running.len() + self.ended.len() + self.settling;
        let free = self.worker.concurrency.saturating_sub(busy);
        if self.stopping || free == 0 {
            return None;
        }
        let wait = match (self.worker.until_empty, self.idle) {
            (false, _) => WAIT,
            (true, 0) if busy == 0 => Duration::ZERO,
            (true, _) => EMPTY_WAIT,
        };
        let options = LeaseOptions {
            max_messages: u32::try_from(free.min(LEASES_PER_CALL_MAX)).unwrap_or(1),
            // Also when it is the queue's own: that may be changed, and leases are counted by the one that is held.
            visibility_timeout: Some(self.holds.timeout()),
            wait,
            ..LeaseOptions::default()
        };
        let pause = match self.failures {
            0 => Duration::ZERO,
            made => self.worker.client.retry_policy().pause(made, self.retry_after, fastrand::f64()),
        };
        let ask_if_empty = self.worker.until_empty && busy == 0;
        let (client, source) = (self.worker.client.clone(), self.worker.source.clone());
        Some(Box::pin(async move {
            sleep(pause).await;
            match take_once(&client, &source, &options, ask_if_empty).await {
                Ok(took) => took,
                Err(error) => Took::Failed(error),
            }
        }))
    }

    fn took<F, Fut>(&mut self, took: Took, function: &Arc<F>)
    where
        F: Fn(Delivery) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Nack>> + Send + 'static,
    {
        if let Took::Failed(error) = took {
            return self.not_taken(error);
        }
        (self.failures, self.retry_after, self.failing_since) = (0, Duration::ZERO, None);
        match took {
            Took::Failed(_) => {}
            Took::Nothing { empty, paused } => {
                self.idle = self.idle.saturating_add(1);
                self.stopping |= empty;
                if paused && !self.told_paused {
                    self.told_paused = true;
                    self.tell(WorkerEvent::Paused);
                }
            }
            Took::Messages(messages) => {
                (self.idle, self.told_paused) = (0, false);
                for message in messages {
                    self.begin(message, function);
                }
            }
        }
    }

    /// Hands a message to the function, or gives it back if the worker is to stop.
    fn begin<F, Fut>(&mut self, message: LeasedMessage, function: &Arc<F>)
    where
        F: Fn(Delivery) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Nack>> + Send + 'static,
    {
        let lease = message.lease.clone();
        let lost = self.holds.add(lease.clone(), Instant::now());
        if self.stop.is_cancelled() {
            let result = Err(Nack::new("the worker stops").after(Duration::ZERO));
            self.ended.push_back(Ended { lease, result, begun: false });
            return;
        }
        self.tell(WorkerEvent::Taken { message: &message });
        let function = Arc::clone(function);
        // The function is called on its own task, so that its panics stay there.
        let handle = self.running.spawn(async move { function(Delivery { message, lost }).await });
        self.leases.insert(handle.id(), lease);
    }

    fn not_taken(&mut self, error: Error) {
        self.tell(WorkerEvent::Trouble { error: &error });
        self.failures = self.failures.saturating_add(1);
        self.retry_after = error.retry_after().unwrap_or_default();
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        let gives_up = self.worker.give_up_after.is_some_and(|patience| since.elapsed() >= patience);
        if gives_up || !error.is_retryable() {
            self.stopping = true;
            self.failure.get_or_insert(error);
        }
    }

    fn finished(&mut self, finished: Result<(Id, Result<(), Nack>), JoinError>) {
        let (id, result) = match finished {
            Ok(finished) => finished,
            Err(error) => (error.id(), Err(Nack::new("its function panicked"))),
        };
        // A function whose lease is known to be lost has been told of already.
        if let Some(lease) = self.leases.remove(&id)
            && self.holds.ends_at(&lease).is_some()
        {
            self.ended.push_back(Ended { lease, result, begun: true });
        }
    }

    /// A call that settles what has ended.
    fn settle(&mut self) -> Option<Call<Vec<(Ended, bool)>>> {
        let mut batch = Vec::new();
        while batch.len() < LEASES_PER_CALL_MAX
            && let Some(ended) = self.ended.pop_front()
        {
            // One whose loss was told in the meantime has nothing left to settle.
            if self.holds.settling(&ended.lease) {
                batch.push(ended);
            }
        }
        if batch.is_empty() {
            return None;
        }
        self.settling = batch.len();
        let until = batch.iter().filter_map(|ended| self.holds.ends_at(&ended.lease)).max();
        let until = until.unwrap_or_else(Instant::now);
        let (client, source) = (self.worker.client.clone(), self.worker.source.clone());
        let observer = Arc::clone(&self.worker.observer);
        Some(Box::pin(async move {
            let mut settled = Vec::new();
            for (verdict, group) in by_verdict(batch) {
                let leases: Vec<Lease> = group.iter().map(|ended| ended.lease.clone()).collect();
                let stale = settle_until(&client, &source, &leases, verdict, until, &*observer).await;
                settled.extend(group.into_iter().map(|ended| {
                    let held = stale.as_ref().is_some_and(|stale| !stale.contains(&ended.lease));
                    (ended, held)
                }));
            }
            settled
        }))
    }

    fn settled(&mut self, settled: Vec<(Ended, bool)>) {
        self.settling = 0;
        for (ended, held) in settled {
            let message_id = &ended.lease.message_id;
            // What was told as lost was counted then, whatever the server says of it now.
            if !self.holds.remove(&ended.lease) {
                continue;
            }
            match (&ended.result, held) {
                (_, false) => {
                    self.tally.lost += 1;
                    self.tell(WorkerEvent::Lost { message_id });
                }
                (Ok(()), true) => {
                    self.tally.acked += 1;
                    self.tell(WorkerEvent::Acked { message_id });
                }
                (Err(_), true) if !ended.begun => self.tally.returned += 1,
                (Err(nack), true) => {
                    self.tally.nacked += 1;
                    self.tell(WorkerEvent::Nacked { message_id, reason: &nack.reason });
                }
            }
        }
    }

    /// Begins to extend what is due.
    fn renew(&mut self, renewals: &mut JoinSet<Renewal>) {
        loop {
            let leases = self.holds.take_due(Instant::now());
            if leases.is_empty() {
                return;
            }
            self.extend(leases, renewals);
        }
    }

    fn extend(&self, leases: Vec<Lease>, renewals: &mut JoinSet<Renewal>) {
        let begun = Instant::now();
        let within = patience::of_extension(self.holds.left(&leases, begun));
        let timeout = self.holds.timeout();
        let (client, source) = (self.worker.client.clone(), self.worker.source.clone());
        renewals.spawn(async move {
            let stale = client.extend_once(&source, &leases, timeout, within).await;
            Renewal { leases, begun, stale }
        });
    }

    fn renewed(&mut self, renewal: Renewal, renewals: &mut JoinSet<Renewal>) {
        let Renewal { mut leases, begun, stale } = renewal;
        let error = match stale {
            Ok(stale) => {
                self.tell(WorkerEvent::Renewed { leases: &leases });
                let lost = self.holds.renewed(&leases, &stale, begun);
                return self.lost(&lost);
            }
            Err(error) => error,
        };
        let is_refused = matches!(error.code(), Some(ErrorCode::BeyondExpiry | ErrorCode::InvalidField));
        if is_refused && leases.len() > 1 {
            // One lease that can last no longer has the whole call refused. Halves find it.
            let rest = leases.split_off(leases.len() / 2);
            self.extend(leases, renewals);
            return self.extend(rest, renewals);
        }
        self.tell(WorkerEvent::Trouble { error: &error });
        if is_refused {
            self.holds.not_renewable(&leases);
        } else {
            let asked = error.retry_after().unwrap_or_default();
            self.holds.not_renewed(&leases, Instant::now(), asked);
        }
    }

    fn told_lost(&mut self, now: Instant) {
        let lost = self.holds.run_out(now);
        self.lost(&lost);
    }

    fn lost(&mut self, leases: &[Lease]) {
        for lease in leases {
            self.tally.lost += 1;
            self.tell(WorkerEvent::Lost { message_id: &lease.message_id });
        }
    }

    fn tell(&self, event: WorkerEvent<'_>) {
        (self.worker.observer)(event);
    }
}

/// Takes messages; if there are none and it matters, asks how the queue is.
async fn take_once(
    client: &Client,
    source: &Source,
    options: &LeaseOptions,
    ask_if_empty: bool,
) -> Result<Took, Error> {
    let messages = client.lease(source, options).await?;
    if !messages.is_empty() {
        return Ok(Took::Messages(messages));
    }
    if !ask_if_empty {
        return Ok(Took::Nothing { empty: false, paused: false });
    }
    let Standing { unfinished_count, paused, .. } = Standing::of(client, source).await?;
    Ok(Took::Nothing { empty: unfinished_count == 0, paused })
}

/// Messages that ended alike, so that one call settles them.
fn by_verdict(batch: Vec<Ended>) -> Vec<(Verdict, Vec<Ended>)> {
    let mut groups: Vec<(Verdict, Vec<Ended>)> = Vec::new();
    for ended in batch {
        let verdict = ended.verdict();
        match groups.iter_mut().find(|(own, _)| *own == verdict) {
            Some((_, group)) => group.push(ended),
            None => groups.push((verdict, vec![ended])),
        }
    }
    groups
}

/// Settles leases, and tries until they have run out. Returns the stale ones, or none if it could not be done.
async fn settle_until(
    client: &Client,
    source: &Source,
    leases: &[Lease],
    verdict: Verdict,
    until: Instant,
    observer: &(dyn Fn(WorkerEvent<'_>) + Send + Sync),
) -> Option<Vec<Lease>> {
    let mut failures = 0;
    loop {
        let within = patience::of_settling(until.saturating_duration_since(Instant::now()));
        let settled = match verdict {
            Verdict::Ack => client.ack_once(source, leases, within).await,
            Verdict::Nack(delay) => client.nack_once(source, leases, delay, within).await,
        };
        let error = match settled {
            Ok(stale) => return Some(stale),
            Err(error) => error,
        };
        observer(WorkerEvent::Trouble { error: &error });
        failures += 1;
        // Later than that the leases would be gone.
        let most = until.saturating_duration_since(Instant::now()) / 2;
        let asked = error.retry_after().unwrap_or_default().min(most);
        let pause = client.retry_policy().pause(failures, asked, fastrand::f64());
        if !error.is_retryable() || Instant::now() + pause >= until {
            return None;
        }
        sleep(pause).await;
    }
}

/// The call, if one is under way.
async fn either<T>(call: &mut Option<Call<T>>) -> T {
    match call {
        Some(call) => call.await,
        None => pending().await,
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
