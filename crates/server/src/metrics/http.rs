//! What the server counts of requests and connections. Counting is a few additions to atomics; nothing is looked up or
//! written out before somebody asks.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use millpond_api::ErrorCode;
use millpond_engine::histogram::{DURATION_BOUNDS, Histogram};

use super::names;
use super::text::Text;
use crate::verb::Verb;

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// With this status.
    Status(u16),
    /// The client left before there was an answer.
    HungUp,
}

/// Endings as a label has them, in the order of [`Ending::number`].
const ENDINGS: [&str; 5] = ["2xx", "3xx", "4xx", "5xx", "hung_up"];

impl Ending {
    fn number(self) -> usize {
        match self {
            Self::Status(..=299) => 0,
            Self::Status(300..=399) => 1,
            Self::Status(400..=499) => 2,
            Self::Status(_) => 3,
            Self::HungUp => 4,
        }
    }
}

/// The counts.
#[derive(Debug)]
pub(crate) struct HttpMetrics {
    /// By verb and ending, in that order.
    durations: Vec<Histogram>,
    in_flight: AtomicI64,
    body_bytes_in: AtomicU64,
    body_bytes_out: AtomicU64,
    /// By the number of the code.
    refused: Vec<AtomicU64>,
    slow: AtomicU64,
    connections: AtomicI64,
    connections_accepted: AtomicU64,
    connections_max: AtomicU64,
    connections_refused: AtomicU64,
}

impl Default for HttpMetrics {
    fn default() -> Self {
        let pairs = Verb::ALL.len() * ENDINGS.len();
        Self {
            durations: (0..pairs).map(|_| Histogram::new(DURATION_BOUNDS)).collect(),
            in_flight: AtomicI64::new(0),
            body_bytes_in: AtomicU64::new(0),
            body_bytes_out: AtomicU64::new(0),
            refused: ErrorCode::all().iter().map(|_| AtomicU64::new(0)).collect(),
            slow: AtomicU64::new(0),
            connections: AtomicI64::new(0),
            connections_accepted: AtomicU64::new(0),
            connections_max: AtomicU64::new(0),
            connections_refused: AtomicU64::new(0),
        }
    }
}

impl HttpMetrics {
    pub(crate) fn request_began(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn request_ended(&self, verb: Verb, ending: Ending, duration: Duration) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        if let Some(histogram) = self.durations.get(verb as usize * ENDINGS.len() + ending.number()) {
            histogram.record_duration(duration);
        }
    }

    pub(crate) fn body_came(&self, bytes: usize) {
        self.body_bytes_in.fetch_add(u64::try_from(bytes).unwrap_or(0), Ordering::Relaxed);
    }

    pub(crate) fn body_goes(&self, bytes: u64) {
        self.body_bytes_out.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self, code: ErrorCode) {
        if let Some(count) = self.refused.get(code as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn was_slow(&self) {
        self.slow.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connections_max_is(&self, most: usize) {
        self.connections_max.store(u64::try_from(most).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn connection_began(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.connections_accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connection_ended(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn connection_refused(&self) {
        self.connections_refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn write(&self, text: &mut Text) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let readings: Vec<_> = self.durations.iter().map(Histogram::read).collect();
        let pairs = Verb::ALL.iter().flat_map(|verb| ENDINGS.map(|ending| (verb.label(), ending)));
        text.begin(&names::HTTP_REQUESTS);
        for (reading, (verb, status)) in readings.iter().zip(pairs.clone()) {
            let labels = [("verb", verb), ("status", status)];
            text.sample(&names::HTTP_REQUESTS, &labels, reading.count());
        }
        text.begin(&names::HTTP_REQUEST_DURATION);
        for (reading, (verb, status)) in readings.iter().zip(pairs) {
            // Most pairs never occur, and each has eighteen lines.
            if reading.count() > 0 {
                let labels = [("verb", verb), ("status", status)];
                text.histogram(&names::HTTP_REQUEST_DURATION, &labels, reading, super::NANOSECONDS);
            }
        }
        text.only(&names::HTTP_REQUESTS_IN_FLIGHT, self.in_flight.load(Ordering::Relaxed));
        text.only(&names::HTTP_REQUEST_BODY_BYTES, load(&self.body_bytes_in));
        text.only(&names::HTTP_RESPONSE_BODY_BYTES, load(&self.body_bytes_out));
        text.begin(&names::HTTP_REFUSED);
        for (code, count) in ErrorCode::all().iter().zip(&self.refused) {
            text.sample(&names::HTTP_REFUSED, &[("code", code.as_str())], load(count));
        }
        text.only(&names::HTTP_SLOW_REQUESTS, load(&self.slow));
        text.only(&names::HTTP_CONNECTIONS, self.connections.load(Ordering::Relaxed));
        text.only(&names::HTTP_CONNECTIONS_MAX, load(&self.connections_max));
        text.only(&names::HTTP_CONNECTIONS_ACCEPTED, load(&self.connections_accepted));
        text.only(&names::HTTP_CONNECTIONS_REFUSED, load(&self.connections_refused));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_counted_by_their_number() {
        assert!(ErrorCode::all().iter().enumerate().all(|(number, code)| *code as usize == number));
    }

    #[test]
    fn endings_have_their_class() {
        for (status, class) in [(200, "2xx"), (206, "2xx"), (304, "3xx"), (429, "4xx"), (507, "5xx")] {
            assert_eq!(ENDINGS[Ending::Status(status).number()], class);
        }
        assert_eq!(ENDINGS[Ending::HungUp.number()], "hung_up");
    }
}
