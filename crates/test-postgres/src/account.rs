//! Who runs PostgreSQL: it refuses root.

use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

/// In this order. What its package makes suits best; the other one is on every system.
const NAMES: [&str; 2] = ["postgres", "nobody"];

/// A user of the system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Account {
    user: u32,
    group: u32,
}

impl Account {
    /// Whom a caller who is root lets run PostgreSQL; anybody else runs it himself.
    pub(crate) fn to_run_as() -> anyhow::Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let known = fs::read_to_string("/etc/passwd").context("/etc/passwd cannot be read")?;
        let found = NAMES.iter().find_map(|name| Self::named(&known, name));
        found.map(Some).with_context(|| {
            format!("PostgreSQL does not run as root, and there is no user {}", NAMES.join(" or "))
        })
    }

    fn named(known: &str, name: &str) -> Option<Self> {
        let line = known.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let mut fields = line.split(':').skip(1);
        Some(Self { user: fields.next()?.parse().ok()?, group: fields.next()?.parse().ok()? })
    }

    /// Makes a command run as this user, without further groups.
    pub(crate) fn run(self, command: &mut Command) {
        command.uid(self.user).gid(self.group);
    }

    /// The same for `nsenter`.
    pub(crate) fn words(&self) -> [String; 2] {
        [format!("--setuid={}", self.user), format!("--setgid={}", self.group)]
    }

    pub(crate) fn give(self, path: &Path) -> io::Result<()> {
        chown(path, Some(self.user), Some(self.group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_the_whole_name() {
        let known = "root:x:0:0::/:/bin/sh\npostgresql:x:7:8::/:/bin/sh\npostgres:x:101:103::/:/bin/sh\n";
        assert_eq!(Account::named(known, "postgres"), Some(Account { user: 101, group: 103 }));
        assert_eq!(Account::named(known, "nobody"), None);
    }
}
