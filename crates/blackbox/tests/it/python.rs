//! Packages of other people for Python, each set in an environment of its own below the build directory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use millpond_blackbox::binary;

/// Makes an environment with exactly the packages of a project's `requirements.txt`, unless it is there already; its
/// interpreter.
pub(crate) fn install(project: &Path, name: &str) -> PathBuf {
    install_from(&project.join("requirements.txt"), name)
}

/// The same with the packages of any file of requirements.
pub(crate) fn install_from(requirements: &Path, name: &str) -> PathBuf {
    install_by(Path::new("python3"), requirements, name)
}

/// An interpreter of at least this minor version of Python 3: one that is on the path, or of pyenv.
pub(crate) fn since(minor: u32) -> PathBuf {
    let named = (minor..minor + 10).rev().map(|minor| PathBuf::from(format!("python3.{minor}")));
    let versions = std::env::var_os("PYENV_ROOT")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".pyenv")))
        .and_then(|root| fs::read_dir(root.join("versions")).ok());
    let of_pyenv = versions.into_iter().flatten().flatten().map(|version| version.path().join("bin/python3"));
    let suits = |interpreter: &PathBuf| {
        let check = format!("import sys, venv; sys.exit(sys.version_info < (3, {minor}))");
        run(Command::new(interpreter).args(["-c", &check])).is_ok()
    };
    let found = ["python3".into()].into_iter().chain(named).chain(of_pyenv).find(suits);
    found.unwrap_or_else(|| {
        panic!("Python is missing: this test needs version 3.{minor} or later as python3, python3.{minor} or in pyenv")
    })
}

/// The same as [`install_from`] for another interpreter than the first on the path.
pub(crate) fn install_by(interpreter: &Path, requirements: &Path, name: &str) -> PathBuf {
    let wanted = fs::read_to_string(requirements).expect("the requirements can be read");
    let environment = binary::target().join(name);
    // Tests that share an environment may run in processes of their own.
    let lock = File::create(environment.with_extension("lock")).expect("the lock can be made");
    lock.lock().expect("it can be locked");
    let (python, installed) = (environment.join("bin/python"), environment.join("installed.txt"));
    if python.exists() && fs::read_to_string(&installed).is_ok_and(|installed| installed == wanted) {
        return python;
    }
    if environment.exists() {
        fs::remove_dir_all(&environment).expect("the old environment can be removed");
    }
    let mut pip = if run(Command::new(interpreter).args(["-m", "venv"]).arg(&environment)).is_ok() {
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip"]);
        pip
    } else {
        // Some systems take out of Python what puts pip into an environment; a pip from outside can fill one too.
        let bare =
            run(Command::new(interpreter).args(["-m", "venv", "--clear", "--without-pip"]).arg(&environment));
        bare.expect("Python is missing: these tests need version 3.11 or later");
        let mut pip = Command::new(interpreter);
        pip.args(["-m", "pip", "--python"]).arg(&python);
        pip
    };
    pip.args(["install", "--quiet", "--require-hashes", "--only-binary", ":all:", "-r"]).arg(requirements);
    run(&mut pip).expect("the packages can be installed, by pip or after installing python3-venv");
    fs::write(installed, wanted).expect("the environment can be written");
    python
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}
