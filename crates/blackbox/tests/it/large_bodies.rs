//! Large bodies (B12): they are taken in bounded memory while small calls go on, and whatever happens to one, what
//! was answered is there byte for byte and what was not leaves nothing behind.
//!
//! A body has 24 MiB, or as many as `MILLPOND_LARGE_BODY_MIB` says, up to 100. What is stored is looked at in the database
//! itself, by SQL. Times are printed, and never decide.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use millpond_blackbox::client::{Client, Counts, Delivery, Lease, event};
use millpond_blackbox::http::{Connection, Request, Response};
use millpond_blackbox::server::{Launch, Server};
use rusqlite::{Connection as Database, OpenFlags};
use serde_json::{Value, json};

const QUEUE: &str = "work";
const SMALL: &str = "small";
const BODIES: u64 = 8;
/// What the server's memory may grow by while eight bodies come and go: those on their way at once, at about a MiB each;
/// the pages that SQLite keeps; commits of a MiB, some at a time; and what the allocator does not give back.
const GROWTH_MAX: u64 = 64 << 20;
const CHUNK_BYTES: usize = 256 << 10;
/// Small sends by which the quiet server is measured.
const QUIET_SENDS: usize = 1_000;
const PIECE_BYTES: usize = 64 << 10;
/// The removal of 400 chunks takes seconds at most; the bound is for one that hangs.
const SWEPT_WITHIN: Duration = Duration::from_secs(60);

const HEADERS: [(&str, &str); 5] = [
    ("content-type", "video/mp4"),
    ("ce-specversion", "1.0"),
    ("ce-id", "1"),
    ("ce-source", "/blackbox"),
    ("ce-type", "test"),
];

fn body_bytes() -> usize {
    let mib = std::env::var("MILLPOND_LARGE_BODY_MIB").ok().map(|text| text.parse::<usize>().expect("MiB"));
    mib.unwrap_or(24) << 20
}

/// A byte of a body that is told from all others by its number.
fn byte_at(body: u64, at: usize) -> u8 {
    let word = (at as u64 / 8).wrapping_add(body << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word >> (8 * (at % 8))) as u8
}

fn piece(body: u64, at: usize, length: usize) -> Vec<u8> {
    (at..at + length).map(|at| byte_at(body, at)).collect()
}

/// Sends the head of a body of this number and as many of its bytes; what is missing can follow.
fn begin(address: SocketAddr, body: u64, length: usize, bytes: usize) -> io::Result<Connection> {
    let mut connection = Connection::open(address)?;
    let key = format!("body-{body}");
    let mut headers = HEADERS.to_vec();
    headers.push(("idempotency-key", &key));
    let target = format!("/v1/queues/{QUEUE}:send");
    let request = Request { method: "POST", target: &target, headers: &headers, body: &[] };
    connection.send_head(&request, Some(length))?;
    go_on(&mut connection, body, 0, bytes)?;
    Ok(connection)
}

fn go_on(connection: &mut Connection, body: u64, from: usize, until: usize) -> io::Result<()> {
    for at in (from..until).step_by(PIECE_BYTES) {
        connection.write(&piece(body, at, PIECE_BYTES.min(until - at)))?;
    }
    Ok(())
}

fn id_in(response: &Response) -> String {
    let text = String::from_utf8_lossy(&response.body);
    assert_eq!(response.status, 200, "{text}");
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    answer["message_ids"][0].as_str().expect("an id").to_owned()
}

fn send(address: SocketAddr, body: u64, length: usize) -> String {
    let mut connection = begin(address, body, length, length).expect("it is sent");
    id_in(&connection.receive().expect("an answer"))
}

/// Asks for the data of a leased message; the bytes follow.
fn open_data(address: SocketAddr, delivery: &Delivery) -> Connection {
    let url = delivery.event["data_url"].as_str().expect("an address");
    let generation = delivery.lease.generation.to_string();
    let headers = [("millpond-lease-generation", generation.as_str())];
    let mut connection = Connection::open(address).expect("it connects");
    let request = Request { method: "GET", target: url, headers: &headers, body: &[] };
    connection.send(&request).expect("it is sent");
    let (response, length) = connection.receive_head().expect("an answer");
    assert_eq!((response.status, length), (200, body_bytes()));
    assert_eq!(response.header("content-type"), Some("video/mp4"));
    connection
}

fn check_bytes(connection: &mut Connection, body: u64, from: usize, until: usize) {
    let mut read = vec![0; PIECE_BYTES];
    for at in (from..until).step_by(PIECE_BYTES) {
        let read = &mut read[..PIECE_BYTES.min(until - at)];
        connection.read(read).expect("it goes on");
        assert!(*read == piece(body, at, read.len()), "body {body} differs behind byte {at}");
    }
}

/// The database of the default environment.
fn database(data_dir: &Path) -> PathBuf {
    let files = std::fs::read_dir(data_dir.join("environments")).expect("a data directory");
    let mut files = files.map(|file| file.expect("it can be read").path());
    files.find(|path| path.extension().is_some_and(|end| end == "sqlite")).expect("a database")
}

/// Rows of messages, chunks and uploads.
fn rows(data_dir: &Path) -> [u64; 3] {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Database::open_with_flags(database(data_dir), flags).expect("it opens");
    ["message", "chunk", "upload"].map(|table| {
        let sql = format!("select count(*) from {table}");
        database.query_row(&sql, [], |row| row.get(0)).expect("it can be counted")
    })
}

/// Chunks that are surely stored once so many bytes were sent: the last few are on their way.
fn stored_of(bytes: usize) -> u64 {
    (bytes / CHUNK_BYTES - 8) as u64
}

/// MiB of the database, and how many of them are free.
fn size(data_dir: &Path) -> [u64; 2] {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Database::open_with_flags(database(data_dir), flags).expect("it opens");
    let number =
        |name: &str| database.pragma_query_value(None, name, |row| row.get::<_, u64>(0)).expect("a number");
    ["page_count", "freelist_count"].map(|name| (number(name) * number("page_size")) >> 20)
}

/// Waits until so many rows are there; each look is a call that the server answers.
fn wait_for_rows(client: &mut Client, data_dir: &Path, is_so: impl Fn([u64; 3]) -> bool) {
    let begun = Instant::now();
    while !is_so(rows(data_dir)) {
        client.counts(QUEUE).expect("counts");
        assert!(begun.elapsed() < SWEPT_WITHIN, "messages, chunks, uploads: {:?}", rows(data_dir));
    }
}

fn start(launch: &Launch) -> (Server, Client) {
    let server = launch.start();
    let mut client = server.client();
    for queue in [QUEUE, SMALL] {
        client.create_queue(queue, json!({"visibility_timeout": "3600s"})).expect("the queue is made");
    }
    (server, client)
}

fn ack(client: &mut Client, lease: &Lease) {
    assert_eq!(client.ack(QUEUE, std::slice::from_ref(lease)).expect("an ack is taken"), []);
}

#[test]
fn eight_bodies_at_once_take_bounded_memory_and_come_back_whole() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let (server, _) = start(&Launch::on_files(directory.path()));
    let address = server.address();
    let quiet = beside_small_sends(address, |answered| {
        assert_eq!(answered.iter().take(QUIET_SENDS).count(), QUIET_SENDS);
    });
    let before = server.peak_memory();
    let begun = Instant::now();
    let mut ids = Vec::new();
    let beside = beside_small_sends(address, |_| ids = send_all(address));
    let (seconds, peak) = (begun.elapsed().as_secs_f64(), server.peak_memory());
    let small = quiet.len() + beside.len();
    eprintln!(
        "{BODIES} bodies of {} MiB in {seconds:.1} s; memory from {} to {} MiB\nsmall sends, quiet: {}\nsmall sends, beside: {}",
        body_bytes() >> 20,
        before >> 20,
        peak >> 20,
        percentiles(quiet),
        percentiles(beside),
    );
    assert!(peak - before <= GROWTH_MAX, "memory grew from {before} to {peak} bytes");
    assert!(small > QUIET_SENDS + BODIES as usize, "only {small} small sends were answered");

    // What was answered is there after a kill, too.
    server.kill();
    let server = Launch::on_files(directory.path()).start();
    let mut client = server.client();
    let before = server.peak_memory();
    eprintln!("database before it is read and acked: {:?} MiB, of which free", size(directory.path()));
    read_all(&server, &ids);
    let peak = server.peak_memory();
    eprintln!("read back; memory from {} to {} MiB", before >> 20, peak >> 20);
    assert!(peak - before <= GROWTH_MAX, "memory grew from {before} to {peak} bytes");
    assert_eq!(client.counts(QUEUE).expect("counts"), Counts::default());
    wait_for_rows(&mut client, directory.path(), |[_, chunks, uploads]| chunks + uploads == 0);
    eprintln!("database after the sweep: {:?} MiB, of which free", size(directory.path()));
    server.stop();
    assert_eq!(rows(directory.path()), [small as u64, 0, 0]);
}

fn send_all(address: SocketAddr) -> Vec<String> {
    let together = &Barrier::new(BODIES as usize);
    std::thread::scope(|scope| {
        let sending = |body| {
            scope.spawn(move || {
                together.wait();
                send(address, body, body_bytes())
            })
        };
        let senders: Vec<_> = (0..BODIES).map(sending).collect();
        senders.into_iter().map(|sender| sender.join().expect("a body is taken")).collect()
    })
}

/// Two callers send small messages for as long as this takes, which is told of each that is answered. Returns how long each
/// took.
fn beside_small_sends(address: SocketAddr, work: impl FnOnce(Receiver<()>)) -> Vec<Duration> {
    let done = &AtomicBool::new(false);
    let (tell, answered) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let sending = |sender: u64| {
            let tell = tell.clone();
            scope.spawn(move || {
                let mut client = Client::new(address);
                let mut took = Vec::new();
                while !done.load(Ordering::SeqCst) {
                    let begun = Instant::now();
                    client.send(SMALL, &[event(&sender.to_string(), "x")], None).expect("it is taken");
                    took.push(begun.elapsed());
                    // Whoever does not count any more has heard enough.
                    let _ = tell.send(());
                }
                took
            })
        };
        let senders: Vec<_> = (0..2).map(sending).collect();
        work(answered);
        done.store(true, Ordering::SeqCst);
        senders.into_iter().flat_map(|sender| sender.join().expect("small sends are taken")).collect()
    })
}

fn percentiles(mut took: Vec<Duration>) -> String {
    took.sort_unstable();
    let at = |share: usize| took[(took.len() - 1) * share / 1_000].as_secs_f64() * 1e3;
    format!("{} in all, p50 {:.2} ms, p99 {:.2} ms, most {:.2} ms", took.len(), at(500), at(990), at(1_000))
}

/// Reads every body: the first one slowly, the others at once; each is acked while it is read.
fn read_all(server: &Server, sent: &[String]) {
    let address = server.address();
    let mut client = server.client();
    let deliveries = client.lease(QUEUE, BODIES, 0).expect("a lease is granted");
    assert_eq!(deliveries.len() as u64, BODIES);
    let body_of = |delivery: &Delivery| {
        let id = &delivery.lease.message_id;
        sent.iter().position(|sent| sent == id).expect("it was sent") as u64
    };
    let client = Mutex::new(client);
    let (slow, others) = deliveries.split_first().expect("there are some");
    let mut slow_stream = open_data(address, slow);
    check_bytes(&mut slow_stream, body_of(slow), 0, 1 << 20);
    ack(&mut client.lock().expect("nobody panics"), &slow.lease);
    std::thread::scope(|scope| {
        for delivery in others {
            let client = &client;
            scope.spawn(move || {
                let mut stream = open_data(address, delivery);
                check_bytes(&mut stream, body_of(delivery), 0, body_bytes() / 2);
                ack(&mut client.lock().expect("nobody panics"), &delivery.lease);
                check_bytes(&mut stream, body_of(delivery), body_bytes() / 2, body_bytes());
            });
        }
    });
    // All others have come and gone; this one was acked long ago and is kept for its reader.
    check_bytes(&mut slow_stream, body_of(slow), 1 << 20, body_bytes());
}

#[test]
fn a_client_that_hangs_up_at_half_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let (server, mut client) = start(&Launch::on_files(directory.path()));
    let connection = begin(server.address(), 1, body_bytes(), body_bytes() / 2).expect("half is sent");
    let half = stored_of(body_bytes() / 2);
    wait_for_rows(&mut client, directory.path(), |[_, chunks, uploads]| chunks >= half && uploads == 1);
    drop(connection);
    wait_for_rows(&mut client, directory.path(), |rows| rows == [0, 0, 0]);
    assert_eq!(client.counts(QUEUE).expect("counts"), Counts::default());
    server.stop();
}

#[test]
fn a_kill_at_nine_tenths_leaves_nothing_and_the_send_can_be_repeated() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let (server, mut client) = start(&Launch::on_files(directory.path()));
    let most = body_bytes() / 10 * 9;
    let connection = begin(server.address(), 1, body_bytes(), most).expect("nine tenths are sent");
    wait_for_rows(&mut client, directory.path(), |[_, chunks, _]| chunks >= stored_of(most));
    server.kill();
    drop(connection);
    let [messages, chunks, uploads] = rows(directory.path());
    assert!(messages == 0 && chunks >= stored_of(most) && uploads == 1, "{messages} {chunks} {uploads}");

    let server = Launch::on_files(directory.path()).start();
    let mut client = server.client();
    wait_for_rows(&mut client, directory.path(), |rows| rows == [0, 0, 0]);
    let first = send(server.address(), 1, body_bytes());
    assert_eq!(send(server.address(), 1, body_bytes()), first, "the key stands for it");
    let delivery = client.lease_one(QUEUE, 60, 0).expect("it is there");
    let mut stream = open_data(server.address(), &delivery);
    check_bytes(&mut stream, 1, 0, body_bytes());
    ack(&mut client, &delivery.lease);
    drop(stream);
    wait_for_rows(&mut client, directory.path(), |rows| rows == [0, 0, 0]);
    server.stop();
}

#[test]
fn a_body_need_not_say_how_long_it_is() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let (server, mut client) = start(&Launch::of(directory.path()));
    let bytes = (3 << 20) + 1;
    let mut connection = Connection::open(server.address()).expect("it connects");
    let target = format!("/v1/queues/{QUEUE}:send");
    let request = Request { method: "POST", target: &target, headers: &HEADERS, body: &[] };
    connection.send_head(&request, None).expect("it is sent");
    for at in (0..bytes).step_by(100_000) {
        let frame = piece(5, at, 100_000.min(bytes - at));
        connection.write(format!("{:x}\r\n", frame.len()).as_bytes()).expect("it is sent");
        connection.write(&frame).expect("it is sent");
        connection.write(b"\r\n").expect("it is sent");
    }
    connection.write(b"0\r\n\r\n").expect("it is sent");
    let id = id_in(&connection.receive().expect("an answer"));

    // A range, and one behind the end.
    let target = format!("/v1/queues/{QUEUE}/messages/{id}/data");
    let get = |range: &str| {
        let headers = [("range", range)];
        let request = Request { method: "GET", target: &target, headers: &headers, body: &[] };
        server.client().exchange(&request).expect("an answer")
    };
    let part = get("bytes=1000000-1999999");
    assert_eq!((part.status, part.header("content-range")), (206, Some("bytes 1000000-1999999/3145729")));
    assert!(part.body == piece(5, 1_000_000, 1_000_000));
    let beyond = get("bytes=3145729-");
    assert_eq!((beyond.status, beyond.header("content-range")), (416, Some("bytes */3145729")));
    let problem: Value = serde_json::from_slice(&beyond.body).expect("JSON");
    assert_eq!(problem["code"], "range_not_satisfiable");
    assert_eq!(client.counts(QUEUE).expect("counts").ready, 1);
    server.stop();
}
