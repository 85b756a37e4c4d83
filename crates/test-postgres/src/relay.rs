//! A relay between clients and a PostgreSQL: it can be led to another server, cut, lose all that passes without a word, or
//! lose single messages of the protocol. What it reads are the protocol's frames, so connections through it are not encrypted.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::Context as _;

/// Single messages that a relay loses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// None.
    Nothing,
    /// Notifications: they come from the server, and never arrive.
    Notifications,
    /// The answer to the next `commit` that ends a transaction which may write; the connection ends with it.
    NextCommitted,
}

/// A port of 127.0.0.1 whose connections go on to a server. Dropped, all of them end.
#[derive(Debug)]
pub struct Relay {
    shared: Arc<Shared>,
    port: u16,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    target: AtomicU16,
    vanishes: AtomicBool,
    loss: Mutex<Loss>,
    lost: AtomicU64,
    vanished: AtomicU64,
    ended: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

/// One connection, which both of its directions know.
#[derive(Debug)]
struct Link {
    shared: Arc<Shared>,
    /// Something was lost without a word: nothing passes any more.
    is_dead: AtomicBool,
    /// The transaction that was begun last may write.
    may_write: AtomicBool,
}

/// Where bytes come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum From {
    Client,
    Server,
}

impl Relay {
    /// A relay to this port of 127.0.0.1.
    ///
    /// # Errors
    /// No port can be listened on.
    pub fn to(port: u16) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
        let own = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            target: AtomicU16::new(port),
            vanishes: AtomicBool::new(false),
            loss: Mutex::new(Loss::Nothing),
            lost: AtomicU64::new(0),
            vanished: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            open: Mutex::default(),
        });
        let accepting = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        });
        Ok(Self { shared, port: own, accepting: Some(accepting) })
    }

    /// Its own port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a database behind it.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }

    /// New connections go to this port from now on.
    pub fn lead_to(&self, port: u16) {
        self.shared.target.store(port, Ordering::SeqCst);
    }

    /// Ends all connections.
    pub fn cut(&self) {
        for stream in self.shared.lock_open().drain(..) {
            // It may be over already.
            let _: io::Result<()> = stream.shutdown(Shutdown::Both);
        }
    }

    /// Whether all that passes is lost without a word, as where a cable is pulled: no connection ends. One that has lost
    /// anything stays silent for ever.
    pub fn vanish(&self, vanishes: bool) {
        self.shared.vanishes.store(vanishes, Ordering::SeqCst);
    }

    /// How many connections have lost something so.
    pub fn vanished(&self) -> u64 {
        self.shared.vanished.load(Ordering::SeqCst)
    }

    /// Loses these messages from now on.
    pub fn lose(&self, loss: Loss) {
        *self.shared.loss.lock().unwrap_or_else(PoisonError::into_inner) = loss;
    }

    /// How many messages were lost by themselves ([`Relay::lose`]).
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::SeqCst)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        // It waits for a connection: here is one.
        let _: io::Result<TcpStream> = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        if self.accepting.take().is_some_and(|accepting| accepting.join().is_err()) {
            eprintln!("a relay has panicked");
        }
        self.cut();
    }
}

impl Shared {
    fn lock_open(&self) -> MutexGuard<'_, Vec<TcpStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while let Ok((client, _)) = listener.accept() {
        if shared.ended.load(Ordering::SeqCst) {
            return;
        }
        // One that cannot be led on ends, as where nobody listens.
        let _: io::Result<()> = lead_on(client, shared);
    }
}

fn lead_on(client: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, shared.target.load(Ordering::SeqCst)))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    shared.lock_open().extend([client.try_clone()?, server.try_clone()?]);
    let link = Arc::new(Link {
        shared: Arc::clone(shared),
        is_dead: AtomicBool::new(false),
        may_write: AtomicBool::new(false),
    });
    let (to_server, to_client) = (server.try_clone()?, client.try_clone()?);
    std::thread::spawn({
        let link = Arc::clone(&link);
        move || link.pass(client, to_server, From::Client)
    });
    std::thread::spawn(move || link.pass(server, to_client, From::Server));
    Ok(())
}

impl Link {
    /// Passes on until one side ends; then the other one ends as well.
    fn pass(&self, mut from: TcpStream, mut to: TcpStream, side: From) {
        // Either way it is over.
        let _: io::Result<()> = self.pass_on(&mut from, &mut to, side);
        if !self.is_dead.load(Ordering::SeqCst) {
            let _: [io::Result<()>; 2] = [from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)];
        }
    }

    fn pass_on(&self, from: &mut TcpStream, to: &mut TcpStream, side: From) -> io::Result<()> {
        let (mut held, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        // What a client says first has no letter in front.
        let mut has_letter = side == From::Server;
        loop {
            let count = from.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            if self.shared.vanishes.load(Ordering::SeqCst) && !self.is_dead.swap(true, Ordering::SeqCst) {
                self.shared.vanished.fetch_add(1, Ordering::SeqCst);
            }
            if self.is_dead.load(Ordering::SeqCst) {
                continue;
            }
            held.extend_from_slice(buffer.get(..count).unwrap_or_default());
            let mut passed = Vec::new();
            while let Some(length) = frame(&held, has_letter) {
                let message: Vec<u8> = held.drain(..length).collect();
                match has_letter.then(|| self.loss_of(&message, side)) {
                    Some(Loss::NextCommitted) => return Ok(()),
                    Some(Loss::Notifications) => continue,
                    Some(Loss::Nothing) | None => {}
                }
                has_letter = true;
                passed.extend(message);
            }
            to.write_all(&passed)?;
        }
    }

    /// As what a message is lost. There is one commit that is.
    fn loss_of(&self, message: &[u8], side: From) -> Loss {
        if side == From::Client {
            if message.starts_with(b"Q") && message.get(5..10) == Some(b"begin") {
                self.may_write.store(message.get(10..) == Some(b"\0"), Ordering::SeqCst);
            }
            return Loss::Nothing;
        }
        let mut loss = self.shared.loss.lock().unwrap_or_else(PoisonError::into_inner);
        let is_lost = match *loss {
            Loss::Nothing => false,
            Loss::Notifications => message.starts_with(b"A"),
            Loss::NextCommitted => {
                message.starts_with(b"C")
                    && message.get(5..) == Some(b"COMMIT\0")
                    && self.may_write.load(Ordering::SeqCst)
            }
        };
        if !is_lost {
            return Loss::Nothing;
        }
        self.shared.lost.fetch_add(1, Ordering::SeqCst);
        match *loss {
            Loss::NextCommitted => std::mem::replace(&mut *loss, Loss::Nothing),
            other => other,
        }
    }
}

/// The length of the first message, if all of it is there.
fn frame(held: &[u8], has_letter: bool) -> Option<usize> {
    let skipped = usize::from(has_letter);
    let length: [u8; 4] = held.get(skipped..skipped + 4)?.try_into().ok()?;
    let whole = skipped + usize::try_from(u32::from_be_bytes(length)).ok()?;
    (held.len() >= whole).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_passed_on_when_all_of_it_is_there() {
        assert_eq!(frame(b"Q\0\0\0\x05\0Q", true), Some(6));
        assert_eq!(frame(b"Q\0\0\0\x05", true), None);
        assert_eq!(frame(b"Q\0\0", true), None);
        assert_eq!(frame(b"\0\0\0\x05\0", false), Some(5));
    }
}
