//! `with-postgres`.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long a guard may take.
const GONE_WITHIN: Duration = Duration::from_secs(60);

fn with_postgres() -> Command {
    Command::new(env!("CARGO_BIN_EXE_with-postgres"))
}

fn run(words: &[&str]) -> Output {
    with_postgres().args(words).output().expect("it can be run")
}

#[test]
fn the_command_finds_a_database_and_its_exit_code_is_passed_on() {
    let output = run(&["--", "sh", "-c", "echo $MILLPOND_TEST_STORE; exit 7"]);
    let url = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert!(url.starts_with("postgres://postgres@127.0.0.1:") && url.ends_with("/millpond_test"), "{url}");
    assert_eq!(output.status.code(), Some(7));
    let address = url.split(['@', '/']).nth(3).expect("an address");
    std::net::TcpStream::connect(address).expect_err("it is gone");
    assert_eq!(run(&["true"]).status.code(), Some(0));
    assert_eq!(run(&["sh", "-c", "kill -KILL $$"]).status.code(), Some(128 + 9));
}

#[test]
fn without_a_command_or_without_postgres_it_says_what_is_wanted() {
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("usage: with-postgres"));
    let output = with_postgres().env("MILLPOND_TEST_POSTGRES_BIN", "/nowhere").arg("true").output();
    let output = output.expect("it can be run");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(126));
    assert!(said.contains("MILLPOND_TEST_POSTGRES_BIN is /nowhere"), "{said}");
}

#[test]
fn killed_it_takes_its_cluster_with_it() {
    // The command holds the pipe until the end of the test.
    let mut command = with_postgres();
    command.args(["sh", "-c", "echo $MILLPOND_TEST_STORE; exec cat"]);
    let mut running = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it can be run");
    let mut url = String::new();
    let mut stdout = BufReader::new(running.stdout.take().expect("stdout is a pipe"));
    stdout.read_line(&mut url).expect("stdout can be read");
    let directory = data_directory(url.trim());
    assert!(directory.exists());
    running.kill().expect("it can be killed");
    running.wait().expect("it can be waited for");
    let begun = Instant::now();
    while directory.exists() {
        assert!(begun.elapsed() < GONE_WITHIN, "{} is still there", directory.display());
        std::thread::yield_now();
    }
}

fn data_directory(url: &str) -> PathBuf {
    let mut client = postgres::Client::connect(url, postgres::NoTls).expect("it runs");
    let row = client.query_one("show data_directory", &[]).expect("an answer");
    Path::new(row.get::<_, &str>(0)).parent().expect("it is below one").to_owned()
}
