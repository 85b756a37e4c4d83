//! The text format of Prometheus, version 0.0.4: families with their help and type, and their samples.

use std::fmt::{Display, Write as _};

use millpond_engine::histogram::HistogramReading;

/// The content type of the format.
pub(crate) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How a value behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Only rises, until the server is started anew.
    Counter,
    /// Is what it is now.
    Gauge,
    /// Counts of values by their size.
    Histogram,
}

/// A metric: its name, how it behaves, and what it says, with its unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
}

/// A label with its value.
pub(crate) type Label<'a> = (&'static str, &'a str);

/// A page in the making. Families come one after the other, each with all of its samples.
#[derive(Debug, Default)]
pub(crate) struct Text {
    text: String,
}

impl Text {
    /// Begins a family.
    pub(crate) fn begin(&mut self, family: &Family) {
        let Family { name, kind, help } = family;
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A family of one value without labels.
    pub(crate) fn only(&mut self, family: &Family, value: impl Display) {
        self.begin(family);
        self.sample(family, &[], value);
    }

    /// One sample of the family that was begun last.
    pub(crate) fn sample(&mut self, family: &Family, labels: &[Label<'_>], value: impl Display) {
        self.line(family.name, "", labels, None, value);
    }

    /// One histogram of the family that was begun last. `unit`: what its integers are divided by.
    pub(crate) fn histogram(
        &mut self,
        family: &Family,
        labels: &[Label<'_>],
        reading: &HistogramReading,
        unit: f64,
    ) {
        let mut below = 0;
        for (count, bound) in reading.buckets.iter().zip(reading.bounds) {
            below += count;
            self.line(family.name, "_bucket", labels, Some(&(*bound as f64 / unit)), below);
        }
        let count = reading.count();
        self.line(family.name, "_bucket", labels, Some(&"+Inf"), count);
        self.line(family.name, "_sum", labels, None, reading.sum as f64 / unit);
        self.line(family.name, "_count", labels, None, count);
    }

    fn line(
        &mut self,
        name: &str,
        suffix: &str,
        labels: &[Label<'_>],
        bound: Option<&dyn Display>,
        value: impl Display,
    ) {
        self.text.push_str(name);
        self.text.push_str(suffix);
        let mut before = '{';
        for (label, value) in labels {
            self.text.push(before);
            self.text.push_str(label);
            self.text.push_str("=\"");
            self.escape(value);
            self.text.push('"');
            before = ',';
        }
        if let Some(bound) = bound {
            let _ = write!(self.text, "{before}le=\"{bound}\"");
            before = ',';
        }
        if before == ',' {
            self.text.push('}');
        }
        // Writing into a string cannot fail.
        let _ = writeln!(self.text, " {value}");
    }

    fn escape(&mut self, value: &str) {
        for character in value.chars() {
            match character {
                '\\' => self.text.push_str("\\\\"),
                '"' => self.text.push_str("\\\""),
                '\n' => self.text.push_str("\\n"),
                other => self.text.push(other),
            }
        }
    }

    /// The whole page.
    pub(crate) fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use millpond_engine::histogram::Histogram;

    use super::*;

    const GAUGE: Family = Family { name: "depth_meters", kind: Kind::Gauge, help: "How deep." };
    const HISTOGRAM: Family = Family { name: "fish_length_meters", kind: Kind::Histogram, help: "How long." };

    #[test]
    fn a_label_may_hold_anything() {
        let mut text = Text::default();
        text.begin(&GAUGE);
        text.sample(&GAUGE, &[("pond", "a\\b\"c\nd"), ("side", "é")], 1.5);
        let expected = "# HELP depth_meters How deep.\n# TYPE depth_meters gauge\n\
                        depth_meters{pond=\"a\\\\b\\\"c\\nd\",side=\"é\"} 1.5\n";
        assert_eq!(text.finish(), expected);
    }

    #[test]
    fn buckets_count_all_that_is_below_them() {
        let histogram = Histogram::new(&[500, 1_000]);
        [100, 500, 700, 3_000].into_iter().for_each(|value| histogram.record(value));
        let mut text = Text::default();
        text.histogram(&HISTOGRAM, &[("kind", "eel")], &histogram.read(), 1_000.0);
        let expected = "fish_length_meters_bucket{kind=\"eel\",le=\"0.5\"} 2\n\
                        fish_length_meters_bucket{kind=\"eel\",le=\"1\"} 3\n\
                        fish_length_meters_bucket{kind=\"eel\",le=\"+Inf\"} 4\n\
                        fish_length_meters_sum{kind=\"eel\"} 4.3\n\
                        fish_length_meters_count{kind=\"eel\"} 4\n";
        assert_eq!(text.finish(), expected);
    }
}
