//! What the figures were taken on.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::statistics::Quantiles;

const BLOCK_BYTES: usize = 4_096;
const BLOCKS: usize = 256;

/// The machine and the build.
pub fn describe() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    let memory = read("/proc/meminfo");
    let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or("unknown");
    json!({
        "cpu": cpu.trim_start_matches([' ', '\t', ':']),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "memory": memory.trim(),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "version": env!("CARGO_PKG_VERSION"),
        "debug_assertions": cfg!(debug_assertions),
    })
}

/// What one flush of a directory's disk takes.
#[derive(Clone, Copy, Debug)]
pub struct Flush {
    /// Half of the flushes took at most so long, in microseconds.
    pub p50_micros: f64,
    /// All but one in a hundred.
    pub p99_micros: f64,
}

/// Overwrites blocks of 4 KiB of a file that has its size already, each with a flush (`fdatasync`): the least that any
/// durable answer costs there.
///
/// # Errors
/// The directory cannot be written.
pub fn measure_flush(directory: &Path) -> anyhow::Result<Flush> {
    let blocks = || -> std::io::Result<Vec<u32>> {
        let mut file: File = tempfile::tempfile_in(directory)?;
        file.write_all(&vec![0; BLOCK_BYTES * BLOCKS])?;
        file.sync_all()?;
        file.seek(SeekFrom::Start(0))?;
        let block = [1; BLOCK_BYTES];
        let mut took = Vec::with_capacity(BLOCKS);
        for _ in 0..BLOCKS {
            let begun = Instant::now();
            file.write_all(&block)?;
            file.sync_data()?;
            took.push(u32::try_from(begun.elapsed().as_micros()).unwrap_or(u32::MAX));
        }
        Ok(took)
    };
    let took = blocks().with_context(|| format!("cannot measure a flush in {}", directory.display()))?;
    let quantiles = Quantiles::of(took);
    Ok(Flush { p50_micros: quantiles.at(0.5), p99_micros: quantiles.at(0.99) })
}
