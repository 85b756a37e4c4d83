//! Figures of one measurement, and what several of them come to.

use serde_json::{Map, Value, json};

/// Durations in order.
#[derive(Clone, Debug, Default)]
pub struct Quantiles {
    sorted: Vec<u32>,
}

impl Quantiles {
    /// Of these durations.
    pub fn of(mut values: Vec<u32>) -> Self {
        values.sort_unstable();
        Self { sorted: values }
    }

    /// The value below which this part of them lies, from 0 to 1; 0 where there are none.
    pub fn at(&self, part: f64) -> f64 {
        let last = self.sorted.len().saturating_sub(1);
        let index = (last as f64 * part).round() as usize;
        self.sorted.get(index).copied().unwrap_or(0).into()
    }
}

/// What one measurement of one scenario gave.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Messages that went all the way of the scenario, a second.
    pub messages_per_second: f64,
    /// Half of the operations took at most so long, in microseconds.
    pub p50_micros: f64,
    /// All but one in a hundred.
    pub p99_micros: f64,
    /// The server's processor time a message, in microseconds; none where its process is not known.
    pub server_cpu_micros: Option<f64>,
    /// The same of the PostgreSQL that the queue is in.
    pub database_cpu_micros: Option<f64>,
    /// The load generator's processor time a message, in microseconds.
    pub load_cpu_micros: f64,
    /// The server's highest resident memory, in KiB.
    pub server_peak_memory_kib: Option<f64>,
    /// What only this scenario has, named with its unit.
    pub further: Vec<(&'static str, f64)>,
}

impl Figures {
    /// All figures by name.
    pub fn named(&self) -> Vec<(&'static str, f64)> {
        let mut named = vec![
            ("messages_per_second", self.messages_per_second),
            ("p50_micros", self.p50_micros),
            ("p99_micros", self.p99_micros),
            ("load_cpu_micros_per_message", self.load_cpu_micros),
        ];
        named.extend(self.server_cpu_micros.map(|value| ("server_cpu_micros_per_message", value)));
        named.extend(self.database_cpu_micros.map(|value| ("database_cpu_micros_per_message", value)));
        named.extend(self.server_peak_memory_kib.map(|value| ("server_peak_memory_kib", value)));
        named.extend_from_slice(&self.further);
        named
    }
}

/// A figure over all rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The middle one, or the mean of the two middle ones.
    pub median: f64,
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
    /// Each round's, in order.
    pub rounds: Vec<f64>,
}

impl Summary {
    /// Of at least one round; none of no rounds.
    pub fn of(rounds: Vec<f64>) -> Option<Self> {
        let mut sorted = rounds.clone();
        sorted.sort_by(f64::total_cmp);
        let (&low, &high) = (sorted.first()?, sorted.last()?);
        let (before, after) = (sorted.get((sorted.len() - 1) / 2)?, sorted.get(sorted.len() / 2)?);
        Some(Self { median: f64::midpoint(*before, *after), low, high, rounds })
    }

    /// As JSON, to a tenth.
    pub fn json(&self) -> Value {
        let tenths = |value: f64| (value * 10.0).round() / 10.0;
        let rounds: Vec<f64> = self.rounds.iter().copied().map(tenths).collect();
        json!({
            "median": tenths(self.median),
            "low": tenths(self.low),
            "high": tenths(self.high),
            "rounds": rounds,
        })
    }
}

/// Each figure of the rounds by name.
pub fn sum_up(rounds: &[Figures]) -> Vec<(&'static str, Summary)> {
    let Some(first) = rounds.first() else { return Vec::new() };
    let named: Vec<_> = rounds.iter().map(Figures::named).collect();
    let of_name = |name: &str| {
        let all = named.iter().flatten().filter(|(own, _)| *own == name);
        Summary::of(all.map(|(_, value)| *value).collect())
    };
    first.named().into_iter().filter_map(|(name, _)| Some((name, of_name(name)?))).collect()
}

/// The same as a JSON object.
pub(crate) fn json_of(summaries: &[(&'static str, Summary)]) -> Value {
    let fields = summaries.iter().map(|(name, summary)| ((*name).to_owned(), summary.json()));
    Value::Object(fields.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_the_middle_and_the_ends() {
        let of = |rounds: &[f64]| Summary::of(rounds.to_vec()).map(|own| (own.low, own.median, own.high));
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some((1.0, 2.0, 3.0)));
        assert_eq!(of(&[4.0, 1.0]), Some((1.0, 2.5, 4.0)));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn quantiles_are_taken_from_the_ordered_values() {
        let quantiles = Quantiles::of((0..=100).rev().collect());
        assert_eq!((quantiles.at(0.0), quantiles.at(0.5), quantiles.at(0.99)), (0.0, 50.0, 99.0));
        assert_eq!(Quantiles::default().at(0.5), 0.0);
    }
}
