//! The SQLite store keeps the contract.

use std::fs;
use std::path::Path;

use millpond_store::StoreFactory;
use millpond_store_conformance::{Place, exercise, rules};
use millpond_store_sqlite::{SqliteFactory, SqliteSettings};

struct Directory {
    directory: tempfile::TempDir,
    copy: tempfile::TempDir,
}

fn settings() -> SqliteSettings {
    SqliteSettings {
        reserve_bytes: 0,
        space_low_bytes: 0,
        space_low_permille: 0,
        ..SqliteSettings::default()
    }
}

impl Directory {
    fn new() -> Self {
        let new = || tempfile::tempdir().expect("a directory can be made");
        Self { directory: new(), copy: new() }
    }
}

/// What a backup of the databases takes: not the lineage.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.join("environments")).expect("a directory can be made");
    fs::copy(from.join("catalogue.sqlite"), to.join("catalogue.sqlite")).expect("it is copied");
    for entry in fs::read_dir(from.join("environments")).expect("it is there") {
        let entry = entry.expect("it is read");
        fs::copy(entry.path(), to.join("environments").join(entry.file_name())).expect("it is copied");
    }
}

impl Place for Directory {
    fn factory(&mut self) -> Box<dyn StoreFactory> {
        Box::new(SqliteFactory::open(self.directory.path(), settings()).expect("the directory is free"))
    }

    fn back_up(&mut self) {
        copy(self.directory.path(), self.copy.path());
    }

    fn restore(&mut self) {
        let path = self.directory.path();
        fs::remove_dir_all(path.join("environments")).expect("it is there");
        for log in ["catalogue.sqlite-wal", "catalogue.sqlite-shm"] {
            let _: std::io::Result<()> = fs::remove_file(path.join(log));
        }
        copy(self.copy.path(), path);
    }
}

/// The rules that this store has nothing for.
fn beside_the_owner() -> impl Iterator<Item = &'static str> {
    rules().filter(|rule| rule.beside).map(|rule| rule.name)
}

#[test]
fn the_sqlite_store_keeps_the_contract() {
    let left_out = exercise(|| Box::new(Directory::new()));
    assert!(left_out.iter().copied().eq(beside_the_owner()), "{left_out:?}");
}
