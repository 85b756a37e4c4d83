//! Where PostgreSQL's programs are.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::bail;

use crate::account::Account;

/// The variable that names the directory of PostgreSQL's programs, such as `initdb` and `postgres`.
pub const BIN: &str = "MILLPOND_TEST_POSTGRES_BIN";
/// Where Debian has a directory for each version.
const DEBIAN: &str = "/usr/lib/postgresql";
const NEEDED: [&str; 2] = ["initdb", "postgres"];

/// A directory with PostgreSQL's programs, and who runs them.
#[derive(Debug)]
pub(crate) struct Installation {
    directory: PathBuf,
    pub(crate) account: Option<Account>,
}

impl Installation {
    /// What [`BIN`] names; else the newest of Debian's; else what is on the path.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let directory = match std::env::var_os(BIN) {
            Some(named) => is_one(Path::new(&named)).ok_or_else(|| {
                anyhow::anyhow!("{BIN} is {}, which has no {}", named.display(), NEEDED.join(" or no "))
            })?,
            None => match newest_of_debian().or_else(on_path) {
                Some(found) => found,
                None => bail!(
                    "PostgreSQL is missing: install it (on Debian and Ubuntu: apt-get install postgresql), or name the \
                     directory of initdb and postgres in {BIN}"
                ),
            },
        };
        Ok(Self { directory, account: Account::to_run_as()? })
    }

    /// One of its programs, run by who may, and without what the caller's shell says about PostgreSQL.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.directory.join(program));
        if let Some(account) = &self.account {
            account.run(&mut command);
        }
        let inherited = std::env::vars_os().map(|(name, _)| name);
        for name in inherited.filter(|name| name.as_encoded_bytes().starts_with(b"PG")) {
            command.env_remove(name);
        }
        // Its log is read here.
        command.env("LC_ALL", "C");
        command
    }
}

fn is_one(directory: &Path) -> Option<PathBuf> {
    let has_all = NEEDED.iter().all(|program| directory.join(program).is_file());
    has_all.then(|| directory.to_owned())
}

fn newest_of_debian() -> Option<PathBuf> {
    let entries = fs::read_dir(DEBIAN).ok()?.flatten();
    let versions = entries.filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((version, is_one(&entry.path().join("bin"))?))
    });
    versions.max().map(|(_, directory)| directory)
}

fn on_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(OsStr::new(&path)).find_map(|directory| is_one(&directory))
}
