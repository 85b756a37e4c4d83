//! Where PostgreSQL's programs are.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::bail;

use crate::account::Account;
use crate::apart::Apart;

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
    /// Where its programs run, if they run apart.
    pub(crate) apart: Option<Arc<Apart>>,
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
        Ok(Self { directory, account: Account::to_run_as()?, apart: None })
    }

    /// One of its programs, run by who may, and without what the caller's shell says about PostgreSQL.
    pub(crate) fn command(&self, program: &str) -> Command {
        let program = self.directory.join(program);
        let mut command = match &self.apart {
            Some(apart) => self.within(apart, &program),
            None => Command::new(program),
        };
        if let Some(account) = self.account.filter(|_| self.apart.is_none()) {
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

    /// Who enters has to be root still; the user is changed behind that.
    fn within(&self, apart: &Apart, program: &Path) -> Command {
        let mut words = apart.words().into_iter();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).args(self.account.iter().flat_map(Account::words)).arg(program);
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
