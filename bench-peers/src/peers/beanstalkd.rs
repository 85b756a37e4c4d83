//! beanstalkd: its protocol is lines, and answers come in the order of the commands.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use millpond_load::{Caller, Leased, Payload, Processes, Stamp, System};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::TcpStream;

use super::Server;
use crate::daemon::{Daemon, free_port};

/// beanstalkd that flushes on every write.
pub(crate) struct Beanstalkd {
    daemon: Daemon,
    port: u16,
    payload: Payload,
}

impl Beanstalkd {
    pub(crate) async fn start(directory: &Path, data_bytes: u64) -> anyhow::Result<Self> {
        let port = free_port()?;
        let mut command = Command::new("beanstalkd");
        command.args(["-l", "127.0.0.1", "-p", &port.to_string(), "-f0", "-b"]).arg(directory);
        let mut daemon = Daemon::start(command, directory, "server.log")?;
        daemon.wait_for(|| async { Ok(TcpStream::connect(("127.0.0.1", port)).await?) }).await?;
        Ok(Self { daemon, port, payload: Payload::new(usize::try_from(data_bytes)?) })
    }
}

impl Server for Beanstalkd {
    type Queue = Tube;

    fn processes(&self) -> Processes {
        self.daemon.processes()
    }

    async fn queue(&self, name: &str, _: u64) -> anyhow::Result<Tube> {
        Ok(Tube { port: self.port, name: name.to_owned(), payload: self.payload.clone() })
    }
}

pub(crate) struct Tube {
    port: u16,
    name: String,
    payload: Payload,
}

impl System for Tube {
    type Caller = Connected;

    async fn caller(&self) -> anyhow::Result<Connected> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream.set_nodelay(true)?;
        let stream = BufStream::new(stream);
        let mut own = Connected { stream, line: String::new(), payload: self.payload.clone() };
        let name = &self.name;
        own.stream.write_all(format!("use {name}\r\nwatch {name}\r\nignore default\r\n").as_bytes()).await?;
        own.stream.flush().await?;
        for expected in ["USING", "WATCHING", "WATCHING"] {
            let line = own.read_line().await?;
            ensure!(line.starts_with(expected), "expected {expected}, got {line:?}");
        }
        Ok(own)
    }
}

pub(crate) struct Connected {
    stream: BufStream<TcpStream>,
    line: String,
    payload: Payload,
}

impl Connected {
    async fn read_line(&mut self) -> anyhow::Result<&str> {
        self.line.clear();
        let bytes = self.stream.read_line(&mut self.line).await?;
        ensure!(bytes > 0, "the server closed the connection");
        Ok(self.line.trim_end())
    }
}

impl Caller for Connected {
    /// The job's id.
    type Lease = u64;

    async fn send(&mut self, count: usize, stamp: Stamp) -> anyhow::Result<()> {
        let data = self.payload.bytes(stamp);
        for _ in 0..count {
            self.stream.write_all(format!("put 0 0 600 {}\r\n", data.len()).as_bytes()).await?;
            self.stream.write_all(&data).await?;
            self.stream.write_all(b"\r\n").await?;
        }
        self.stream.flush().await?;
        for _ in 0..count {
            let line = self.read_line().await?;
            ensure!(line.starts_with("INSERTED"), "put was answered {line:?}");
        }
        Ok(())
    }

    async fn lease(&mut self, most: usize) -> anyhow::Result<Vec<Leased<u64>>> {
        for _ in 0..most {
            self.stream.write_all(b"reserve\r\n").await?;
        }
        self.stream.flush().await?;
        let mut leased = Vec::with_capacity(most);
        for _ in 0..most {
            let line = self.read_line().await?;
            let mut words = line.split(' ');
            let (Some("RESERVED"), Some(id), Some(bytes)) = (words.next(), words.next(), words.next()) else {
                bail!("reserve was answered {line:?}");
            };
            let (id, bytes): (u64, usize) = (id.parse()?, bytes.parse()?);
            let mut data = vec![0; bytes + 2];
            self.stream.read_exact(&mut data).await?;
            let stamp = Stamp::of_payload(&data).context("a job that this load did not send")?;
            leased.push(Leased { lease: id, stamp });
        }
        Ok(leased)
    }

    async fn ack(&mut self, leases: Vec<Leased<u64>>) -> anyhow::Result<()> {
        for leased in &leases {
            self.stream.write_all(format!("delete {}\r\n", leased.lease).as_bytes()).await?;
        }
        self.stream.flush().await?;
        for _ in &leases {
            let line = self.read_line().await?;
            ensure!(line == "DELETED", "delete was answered {line:?}");
        }
        Ok(())
    }
}
