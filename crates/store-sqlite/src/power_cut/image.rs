//! One file: what is durable, what a reader sees, and the writes between the two.

/// What a disk writes whole or not at all.
pub(super) const SECTOR: usize = 512;

/// One file.
#[derive(Debug, Default)]
pub(super) struct Image {
    durable: Vec<u8>,
    current: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Write { offset: usize, data: Vec<u8> },
    Truncate { length: usize },
}

impl Image {
    /// A file that is durable as it is.
    pub(super) fn of(content: Vec<u8>) -> Self {
        Self { durable: content.clone(), current: content, pending: Vec::new() }
    }

    pub(super) fn content(&self) -> &[u8] {
        &self.current
    }

    pub(super) fn len(&self) -> usize {
        self.current.len()
    }

    /// Fills `out` from `offset` on, with zeros behind the end; `false`: the end was met.
    pub(super) fn read(&self, offset: usize, out: &mut [u8]) -> bool {
        let found = self.current.get(offset..).unwrap_or_default();
        let count = found.len().min(out.len());
        let (filled, rest) = out.split_at_mut(count);
        filled.copy_from_slice(found.get(..count).unwrap_or_default());
        rest.fill(0);
        rest.is_empty()
    }

    pub(super) fn write(&mut self, offset: usize, data: &[u8]) {
        put(&mut self.current, offset, data);
        self.pending.push(Change::Write { offset, data: data.to_owned() });
    }

    pub(super) fn truncate(&mut self, length: usize) {
        self.current.truncate(length);
        self.pending.push(Change::Truncate { length });
    }

    pub(super) fn flush(&mut self) {
        for change in self.pending.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    /// Makes any part of what is pending durable and forgets the rest, which readers still see.
    pub(super) fn flush_some(&mut self, random: &mut dyn FnMut() -> u64) {
        let pending = std::mem::take(&mut self.pending);
        // How much survives differs from cut to cut: nothing, all and every share between are as likely.
        let share = random() % 9;
        let mut survivors = Vec::new();
        for change in pending {
            match change {
                Change::Truncate { .. } if random() % 8 < share => survivors.push(change),
                Change::Truncate { .. } => {}
                Change::Write { offset, data } => {
                    for (start, sector) in sectors(offset, &data) {
                        if random() % 8 < share {
                            survivors.push(Change::Write { offset: start, data: sector.to_owned() });
                        }
                    }
                }
            }
        }
        if random().is_multiple_of(2) {
            shuffle(&mut survivors, random);
        }
        for change in survivors {
            change.apply(&mut self.durable);
        }
    }

    /// After a cut a reader sees what is durable.
    pub(super) fn forget_pending(&mut self) {
        self.pending.clear();
        self.current.clone_from(&self.durable);
    }
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Write { offset, data } => put(to, *offset, data),
            Self::Truncate { length } => to.truncate(*length),
        }
    }
}

fn put(to: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if to.len() < end {
        to.resize(end, 0);
    }
    if let Some(place) = to.get_mut(offset..end) {
        place.copy_from_slice(data);
    }
}

/// A write by the sectors that it touches.
fn sectors(offset: usize, data: &[u8]) -> Vec<(usize, &[u8])> {
    let mut found = Vec::new();
    let (mut start, mut rest) = (offset, data);
    while !rest.is_empty() {
        let (sector, behind) = rest.split_at((SECTOR - start % SECTOR).min(rest.len()));
        found.push((start, sector));
        start += sector.len();
        rest = behind;
    }
    found
}

fn shuffle<T>(list: &mut [T], random: &mut dyn FnMut() -> u64) {
    for last in (1..list.len()).rev() {
        let other = random() % (last as u64 + 1);
        list.swap(last, usize::try_from(other).unwrap_or(last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_flushed_stays_and_the_rest_is_kept_lost_or_torn_by_sectors() {
        let mut outcomes = std::collections::BTreeSet::new();
        let mut seed = 0u64;
        let mut random = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            seed >> 33
        };
        for _ in 0..500 {
            let mut image = Image::default();
            image.write(0, &[1; 2 * SECTOR]);
            image.flush();
            image.write(SECTOR / 2, &[2; SECTOR]);
            image.flush_some(&mut random);
            image.forget_pending();
            let at = |offset: usize| image.durable[offset];
            assert_eq!((at(0), at(SECTOR / 2 - 1), at(SECTOR * 3 / 2), image.len()), (1, 1, 1, 2 * SECTOR));
            outcomes.insert((at(SECTOR / 2), at(SECTOR)));
        }
        assert_eq!(outcomes.len(), 4, "each half is kept or lost by itself: {outcomes:?}");
    }
}
