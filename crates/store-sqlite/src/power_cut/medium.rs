//! The files of one disk, its directory, and the faults that are due.

use std::collections::BTreeMap;
use std::sync::Weak;

use super::image::Image;
use super::locks::FileLocks;
use super::shared_memory::SharedMemory;

/// Why an operation failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Failure {
    Full,
    Io,
    NotFound,
}

/// Everything that is on a disk.
#[derive(Debug, Default)]
pub(super) struct Medium {
    /// Files by number, in the order in which they were made, so that a cut is the same in each run.
    files: BTreeMap<u64, File>,
    /// The directory as it is seen, and as it is durable.
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    next_file: u64,
    /// Rises with each cut: handles of an earlier time only fail.
    pub(super) generation: u64,
    pub(super) operations: u64,
    pub(super) operations_left: Option<u64>,
    pub(super) failing_flushes: u64,
    pub(super) capacity: Option<u64>,
    pub(super) reserve: u64,
    /// Lineage and commit of each database (`lineage.rs`).
    pub(super) marks: BTreeMap<String, (String, u64)>,
}

/// One file and what connections share about it.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) image: Image,
    pub(super) locks: FileLocks,
    /// As long as a connection uses it; then the next one has to recover the log.
    pub(super) shared_memory: Weak<SharedMemory>,
}

impl Medium {
    pub(super) fn used_bytes(&self) -> u64 {
        self.names
            .values()
            .filter_map(|number| self.files.get(number))
            .map(|file| file.image.len() as u64)
            .sum()
    }

    pub(super) fn exists(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// The number of a file, which is made if `create` says so.
    pub(super) fn open(&mut self, name: &str, create: bool) -> Result<u64, Failure> {
        self.check_power()?;
        if let Some(number) = self.names.get(name) {
            return Ok(*number);
        }
        if !create {
            return Err(Failure::NotFound);
        }
        self.next_file += 1;
        self.files.insert(self.next_file, File::default());
        self.names.insert(name.to_owned(), self.next_file);
        Ok(self.next_file)
    }

    pub(super) fn delete(&mut self, name: &str, flush: bool) -> Result<(), Failure> {
        self.step()?;
        self.names.remove(name).ok_or(Failure::NotFound)?;
        if flush {
            self.durable_names.remove(name);
        }
        Ok(())
    }

    /// A file of the present generation.
    pub(super) fn file(&mut self, generation: u64, number: u64) -> Result<&mut File, Failure> {
        self.check_power()?;
        if generation != self.generation {
            return Err(Failure::Io);
        }
        self.files.get_mut(&number).ok_or(Failure::Io)
    }

    pub(super) fn write(
        &mut self,
        generation: u64,
        number: u64,
        offset: usize,
        data: &[u8],
    ) -> Result<(), Failure> {
        let length = self.file(generation, number)?.image.len();
        let growth = (offset + data.len()).saturating_sub(length) as u64;
        if growth > 0
            && let Some(capacity) = self.capacity
            && self.used_bytes() + self.reserve + growth > capacity
        {
            return Err(Failure::Full);
        }
        self.step()?;
        self.file(generation, number)?.image.write(offset, data);
        Ok(())
    }

    pub(super) fn truncate(&mut self, generation: u64, number: u64, length: usize) -> Result<(), Failure> {
        self.step()?;
        self.file(generation, number)?.image.truncate(length);
        Ok(())
    }

    /// Flushes a file and, as Linux's file systems do, its name.
    pub(super) fn flush(&mut self, generation: u64, number: u64) -> Result<(), Failure> {
        self.step()?;
        if self.failing_flushes > 0 {
            self.failing_flushes -= 1;
            let mut seed = self.operations;
            let mut random = || {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                seed >> 33
            };
            self.file(generation, number)?.image.flush_some(&mut random);
            return Err(Failure::Io);
        }
        self.file(generation, number)?.image.flush();
        for (name, &found) in &self.names {
            if found == number {
                self.durable_names.insert(name.clone(), number);
            }
        }
        Ok(())
    }

    pub(super) fn power_cut(&mut self, random: &mut dyn FnMut() -> u64) {
        self.generation += 1;
        self.operations_left = None;
        self.failing_flushes = 0;
        let seen = std::mem::take(&mut self.names);
        let durable = std::mem::take(&mut self.durable_names);
        let all: std::collections::BTreeSet<&String> = seen.keys().chain(durable.keys()).collect();
        // In the order of their making: names are random, and may not decide which file meets which number.
        let mut all: Vec<(Option<u64>, Option<u64>, &String)> =
            all.into_iter().map(|name| (seen.get(name).copied(), durable.get(name).copied(), name)).collect();
        all.sort_unstable();
        for (seen, durable, name) in all {
            let kept = if seen == durable || random().is_multiple_of(2) { seen } else { durable };
            if let Some(number) = kept {
                self.names.insert(name.clone(), number);
            }
        }
        self.durable_names.clone_from(&self.names);
        let kept: std::collections::BTreeSet<u64> = self.names.values().copied().collect();
        self.files.retain(|number, _| kept.contains(number));
        for file in self.files.values_mut() {
            file.image.flush_some(random);
            file.image.forget_pending();
            file.locks = FileLocks::default();
            file.shared_memory = Weak::new();
        }
    }

    pub(super) fn back_up(&self) -> BTreeMap<String, Vec<u8>> {
        let content = |number: &u64| self.files.get(number).map(|file| file.image.content().to_vec());
        let files = self.names.iter();
        files.filter_map(|(name, number)| content(number).map(|content| (name.clone(), content))).collect()
    }

    pub(super) fn restore(&mut self, backup: &BTreeMap<String, Vec<u8>>) {
        self.generation += 1;
        self.names.clear();
        self.files.clear();
        for (name, content) in backup {
            self.next_file += 1;
            self.files.insert(self.next_file, File { image: Image::of(content.clone()), ..File::default() });
            self.names.insert(name.clone(), self.next_file);
        }
        self.durable_names.clone_from(&self.names);
    }

    fn check_power(&self) -> Result<(), Failure> {
        if self.operations_left == Some(0) { Err(Failure::Io) } else { Ok(()) }
    }

    /// Counts an operation that changes something, and fails when the power is gone.
    fn step(&mut self) -> Result<(), Failure> {
        self.check_power()?;
        self.operations += 1;
        if let Some(left) = &mut self.operations_left {
            *left -= 1;
        }
        self.check_power()
    }
}
