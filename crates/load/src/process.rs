//! What processes have used, from `/proc`.

use std::fs;

/// Processes whose use is counted together.
#[derive(Clone, Copy, Debug)]
pub enum Processes {
    /// This one.
    Own,
    /// One by its id.
    One(u32),
    /// All of a process group: a server that is started through scripts, or is several processes.
    Group(u32),
    /// A process and its children, those that have ended too: a PostgreSQL, by its first process.
    Tree(u32),
    /// A server, and the first process of the PostgreSQL that it stands on.
    Beside(u32, u32),
}

impl Processes {
    /// The queue's server alone; none where the queue is in PostgreSQL and its clients.
    pub fn server(self) -> Option<Self> {
        match self {
            Self::Tree(_) => None,
            Self::Beside(server, _) => Some(Self::One(server)),
            other => Some(other),
        }
    }

    /// The PostgreSQL alone, if there is one.
    pub fn database(self) -> Option<Self> {
        match self {
            Self::Tree(first) | Self::Beside(_, first) => Some(Self::Tree(first)),
            _ => None,
        }
    }

    /// Processor time so far, in microseconds. The kernel counts in ticks, of 10 ms as a rule.
    pub fn cpu_micros(self) -> u64 {
        let ended = match self {
            Self::Tree(first) | Self::Beside(_, first) => ticks_of_ended(&first.to_string()),
            _ => 0,
        };
        let ticks: u64 = self.ids().iter().map(|id| ticks(id)).sum::<u64>() + ended;
        ticks * 1_000_000 / rustix::param::clock_ticks_per_second().max(1)
    }

    /// Highest resident memory so far (`VmHWM`), in KiB; the sum of each one's own if they are several.
    pub fn peak_memory_kib(self) -> u64 {
        self.ids().iter().map(|id| status_kib(id, "VmHWM:")).sum()
    }

    /// Resident memory now (`VmRSS`), in KiB.
    pub fn memory_kib(self) -> u64 {
        self.ids().iter().map(|id| status_kib(id, "VmRSS:")).sum()
    }

    fn ids(self) -> Vec<String> {
        match self {
            Self::Own => vec!["self".to_owned()],
            Self::One(id) => vec![id.to_string()],
            Self::Group(group) => those_with(GROUP, group),
            Self::Tree(first) => tree(first),
            Self::Beside(server, first) => [vec![server.to_string()], tree(first)].concat(),
        }
    }
}

/// Fields of [`stat`].
const PARENT: usize = 1;
const GROUP: usize = 2;

fn tree(first: u32) -> Vec<String> {
    [vec![first.to_string()], those_with(PARENT, first)].concat()
}

fn those_with(field: usize, value: u32) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let processes = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    processes.filter(|id| stat_field(&stat(id), field) == Some(u64::from(value))).collect()
}

/// The fields of `/proc/ID/stat` that follow the name, which may hold anything.
fn stat(id: &str) -> String {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit(')').next().unwrap_or_default().to_owned()
}

fn stat_field(stat: &str, index: usize) -> Option<u64> {
    stat.split_ascii_whitespace().nth(index)?.parse().ok()
}

/// utime and stime.
fn ticks(id: &str) -> u64 {
    let stat = stat(id);
    stat_field(&stat, 11).unwrap_or(0) + stat_field(&stat, 12).unwrap_or(0)
}

/// cutime and cstime: of children that were waited for.
fn ticks_of_ended(id: &str) -> u64 {
    let stat = stat(id);
    stat_field(&stat, 13).unwrap_or(0) + stat_field(&stat, 14).unwrap_or(0)
}

fn status_kib(id: &str, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_by_its_id_and_in_its_group() {
        let group = rustix::process::getpgrp().as_raw_nonzero().get();
        let group = Processes::Group(u32::try_from(group).expect("ids are positive"));
        assert!(group.ids().contains(&std::process::id().to_string()));
        let parent = std::os::unix::process::parent_id();
        assert!(Processes::Tree(parent).ids().contains(&std::process::id().to_string()));
        assert!(Processes::One(std::process::id()).peak_memory_kib() > 0);
        assert!(Processes::Own.memory_kib() > 0);
    }
}
