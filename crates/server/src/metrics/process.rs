//! What the system says of this process. Where it has no `/proc`, nothing is shown.

use std::fs;

use super::names;
use super::text::Text;

/// Parts of a second in which the system counts processor time for programs: the same on every Linux we run on.
const TICKS_PER_SECOND: f64 = 100.0;

/// What was read; what could not be is `None`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Process {
    resident_bytes: Option<u64>,
    cpu_seconds: Option<f64>,
    open_fds: Option<u64>,
    max_fds: Option<u64>,
    start_seconds: Option<f64>,
}

pub(super) fn write(text: &mut Text) {
    let process = Process::read();
    let mut show = |family, value: Option<f64>| {
        if let Some(value) = value {
            text.only(family, value);
        }
    };
    show(&names::PROCESS_RESIDENT_MEMORY, process.resident_bytes.map(|bytes| bytes as f64));
    show(&names::PROCESS_CPU, process.cpu_seconds);
    show(&names::PROCESS_OPEN_FDS, process.open_fds.map(|count| count as f64));
    show(&names::PROCESS_MAX_FDS, process.max_fds.map(|count| count as f64));
    show(&names::PROCESS_START_TIME, process.start_seconds);
}

impl Process {
    fn read() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let stat = read("/proc/self/stat");
        let boot_seconds = number_after(&read("/proc/stat"), "btime ");
        let fields = fields_of(&stat);
        let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok());
        Self {
            resident_bytes: number_after(&read("/proc/self/status"), "VmRSS:").map(|kib| kib * 1_024),
            cpu_seconds: ticks(11).zip(ticks(12)).map(|(user, system)| (user + system) / TICKS_PER_SECOND),
            // The directory that is being read is one of them.
            open_fds: fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as u64 - 1),
            max_fds: number_after(&read("/proc/self/limits"), "Max open files"),
            start_seconds: boot_seconds
                .zip(ticks(19))
                .map(|(boot, start)| boot as f64 + start / TICKS_PER_SECOND),
        }
    }
}

/// The fields of a `stat` line from the state on. What precedes it is a name that may hold anything.
fn fields_of(stat: &str) -> Vec<&str> {
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace().collect()
}

/// The first number on the line that starts so.
fn number_after(text: &str, start: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(start))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_moves_no_field() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 4 0 777 1";
        let fields = fields_of(stat);
        assert_eq!((fields[0], fields[11], fields[12], fields[19]), ("S", "250", "50", "777"));
    }

    #[test]
    fn numbers_are_found_by_their_line() {
        let status = "VmPeak:\t 9 kB\nVmRSS:\t  123 kB\n";
        assert_eq!(number_after(status, "VmRSS:"), Some(123));
        assert_eq!(number_after("Max open files  unlimited  unlimited files", "Max open files"), None);
        assert_eq!(number_after("", "btime "), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_all_there() {
        let process = Process::read();
        assert!(process.resident_bytes.is_some_and(|bytes| bytes > 1 << 20), "{process:?}");
        assert!(process.cpu_seconds.is_some() && process.max_fds.is_some(), "{process:?}");
        assert!(process.open_fds.is_some_and(|count| count >= 3), "{process:?}");
        let start = process.start_seconds.expect("it was started");
        let now = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs_f64();
        // Both are made of the same clock, but for what it was set by since the system was started.
        assert!(start > 1.5e9 && start < now + 3_600.0, "{start} {now}");
    }
}
