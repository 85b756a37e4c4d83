//! An older copy of the data is put back (A2, A3), in every way in which that is done: the leases in it are over, and
//! whoever still holds one of the future that was lost can do nothing with it.
//!
//! Lease generations rise with the clock, so a copy starts above its lost future; a server that is started again and
//! again in that future must not have run ahead of the clock.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use millpond_blackbox::client::{Client, Counts, Delivery, Lease, event};
use millpond_blackbox::server::{Launch, Server};
use serde_json::json;

const QUEUE: &str = "work";
/// Longer than any test.
const LONG: u64 = 3_600;
/// Leases of a copy end in the first step after the start, not in the start itself.
const SOON: u64 = 5;
const CRASHES: usize = 20;
const HEALED: &str = "opened a restored copy";

/// How a copy is taken and put back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// The whole directory of a stopped server; the copy takes its place.
    Whole,
    /// The whole directory of a running server; the copy takes its place.
    WholeOfRunning,
    /// The databases of a stopped server, put back beside what else there is.
    Databases,
    /// The databases and logs of a running server.
    DatabasesOfRunning,
    /// The whole directory of a stopped server, written over the files that are there.
    InPlace,
}

const EACH: [Way; 5] =
    [Way::Whole, Way::WholeOfRunning, Way::Databases, Way::DatabasesOfRunning, Way::InPlace];

#[test]
fn a_lease_granted_after_the_copy_is_stale() {
    for way in EACH {
        let mut place = Place::new(5);
        place.copy(way);
        let lost = place.take(LONG);
        place.put_back(way);
        let next = place.take(LONG);
        assert_eq!(next.delivery_count, 1, "{way:?}: the lost future counts for nothing");
        place.assert_fenced(way, &[lost], &next);
    }
}

#[test]
fn two_leases_granted_after_the_copy_are_stale() {
    for way in EACH {
        let mut place = Place::new(5);
        place.copy(way);
        let first = place.take(1);
        let second = place.client.lease_one(QUEUE, LONG, 10).expect("it comes back");
        place.put_back(way);
        let next = place.take(LONG);
        place.assert_fenced(way, &[first, second], &next);
    }
}

#[test]
fn a_lease_held_when_the_copy_was_taken_is_over_and_spends_nothing() {
    for way in EACH {
        // With one delivery allowed, a lease that counted would make a dead letter of the message.
        let mut place = Place::new(1);
        let held = place.take(LONG);
        place.copy(way);
        // Without a future that is lost the copy is what there is.
        place.client.pass(1);
        place.put_back(way);
        let next = place.take(LONG);
        assert_eq!(next.delivery_count, 1, "{way:?}");
        place.assert_fenced(way, &[held], &next);
    }
}

#[test]
fn a_lease_granted_after_a_crash_loop_is_stale() {
    for way in [Way::Whole, Way::InPlace] {
        let mut place = Place::new(5);
        place.copy(way);
        for _ in 0..CRASHES {
            place.server.take().expect("it runs").kill();
            place.start();
            // An environment is opened by the first call.
            assert_eq!(place.client.counts(QUEUE).expect("counts").ready, 1);
        }
        let lost = place.take(LONG);
        place.put_back(way);
        let next = place.take(LONG);
        place.assert_fenced(way, &[lost], &next);
    }
}

/// A server with one message in one queue, and a copy of its data.
struct Place {
    directory: tempfile::TempDir,
    launch: Launch,
    server: Option<Server>,
    client: Client,
}

impl Place {
    fn new(max_deliveries: u64) -> Self {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let launch = Launch::on_files(&directory.path().join("data"));
        let server = launch.start();
        let mut client = server.client();
        client.create_queue(QUEUE, json!({"max_deliveries": max_deliveries})).expect("the queue is made");
        client.send(QUEUE, &[event("1", "one")], None).expect("it is sent");
        Self { directory, launch, server: Some(server), client }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn take(&mut self, lease_seconds: u64) -> Delivery {
        self.client.lease_one(QUEUE, lease_seconds, SOON).expect("a message is ready")
    }

    fn stop(&mut self) {
        self.server.take().expect("it runs").stop();
    }

    fn start(&mut self) {
        let server = self.launch.start();
        self.client = server.client();
        self.server = Some(server);
    }

    fn copy(&mut self, way: Way) {
        let runs = matches!(way, Way::WholeOfRunning | Way::DatabasesOfRunning);
        if !runs {
            self.stop();
        }
        copy(&self.path("data"), &self.path("copy"));
        if !runs {
            self.start();
        }
    }

    fn put_back(&mut self, way: Way) {
        self.stop();
        let (data, copied) = (self.path("data"), self.path("copy"));
        match way {
            Way::Whole | Way::WholeOfRunning => {
                fs::remove_dir_all(&data).expect("it is removed");
                copy(&copied, &data);
            }
            Way::Databases | Way::DatabasesOfRunning => {
                let (data, copied) = (data.join("environments"), copied.join("environments"));
                fs::remove_dir_all(&data).expect("it is removed");
                copy(&copied, &data);
                for file in files(&data) {
                    if file.extension().is_some_and(|end| end == "sqlite-shm") {
                        fs::remove_file(file).expect("it is removed");
                    }
                }
            }
            Way::InPlace => write_over(&copied, &data),
        }
        self.start();
    }

    /// `old` leases are stale, `next` is above them and good; and the server said what it took the data for.
    fn assert_fenced(&mut self, way: Way, old: &[Delivery], next: &Delivery) {
        for old in old {
            assert!(next.lease.generation > old.lease.generation, "{way:?}: {next:?} after {old:?}");
            assert_eq!(self.settle_all(&old.lease), [true; 3], "{way:?}: {old:?} is stale");
        }
        let good = self.client.ack(QUEUE, std::slice::from_ref(&next.lease)).expect("an answer");
        assert_eq!(good, [], "{way:?}");
        assert_eq!(self.client.counts(QUEUE).expect("counts"), Counts::default(), "{way:?}");
        let log = self.server.take().expect("it runs").stop().log;
        assert!(log.contains(HEALED), "{way:?}: {log}");
    }

    /// Whether ack, nack and extend call this lease stale.
    fn settle_all(&mut self, lease: &Lease) -> [bool; 3] {
        let leases = std::slice::from_ref(lease);
        let client = &mut self.client;
        let stale = [client.ack(QUEUE, leases), client.nack(QUEUE, leases), client.extend(QUEUE, leases, 60)];
        stale.map(|stale| stale.expect("an answer") == leases)
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("it can be read");
    entries.map(|entry| entry.expect("it can be read").path()).collect()
}

/// As `cp -a` does it.
fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp can be run");
    assert!(status.success());
}

/// Writes each file of a copy over the file of the same name, and removes what the copy does not have.
fn write_over(copied: &Path, data: &Path) {
    for file in files(data) {
        if !copied.join(file.file_name().expect("a name")).exists() {
            fs::remove_file(file).expect("it is removed");
        }
    }
    for original in files(copied) {
        let file = data.join(original.file_name().expect("a name"));
        if original.is_dir() {
            write_over(&original, &file);
        } else {
            fs::write(&file, fs::read(&original).expect("it can be read")).expect("it can be written");
        }
    }
}
