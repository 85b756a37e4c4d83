//! Where the binaries under test come from.
//!
//! `CARGO_BIN_EXE_…` is only there for tests of the same package, so they are looked up beside the test itself:
//! `target/PROFILE/deps/it-…` stands two levels below `target/PROFILE/millpond`. To never test a stale one, `cargo build`
//! runs once per test process; over the whole workspace and with the example, so that cargo chooses the same features as
//! in `cargo build --workspace --all-targets` and has nothing to compile after it. `MILLPOND_BIN` names a binary that is
//! taken as it is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The product.
pub fn millpond() -> PathBuf {
    match std::env::var_os("MILLPOND_BIN") {
        Some(path) => path.into(),
        None => built().join("millpond"),
    }
}

/// The product on a store that does not flush, for showing that a test notices.
pub fn unflushed() -> PathBuf {
    built().join("examples").join("unflushed")
}

/// `target`, where tests keep what they install.
pub fn target() -> PathBuf {
    profile().parent().expect("target").to_owned()
}

/// `target/PROFILE`.
fn profile() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    test.parent().and_then(Path::parent).expect("target/PROFILE").to_owned()
}

/// `target/PROFILE`, after a build.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let directory = profile();
        build(directory.file_name().and_then(|name| name.to_str()).expect("the profile's name"));
        directory
    })
}

fn build(profile_directory: &str) {
    let profile = if profile_directory == "debug" { "dev" } else { profile_directory };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["build", "--quiet", "--workspace", "--bin", "millpond", "--example", "unflushed"])
        .args(["--profile", profile])
        .status()
        .expect("cargo can be run");
    assert!(status.success(), "the server cannot be built");
}
