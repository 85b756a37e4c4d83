//! A blocking HTTP/1.1 client for one connection.
//!
//! Written here because tests need what libraries hide: to hang up between a request and its answer, to know which of
//! the two failed, and never to try again by themselves.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// No answer takes longer, long polls included.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// A request; `Host` and `Content-Length` are added.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// `GET`, `POST` and so on.
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// Further headers.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body; empty: none.
    pub body: &'a [u8],
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// One connection. Dropping it hangs up.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<TcpStream>,
    host: String,
}

impl Connection {
    /// Connects.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        Ok(Self { stream: BufReader::new(stream), host: address.to_string() })
    }

    /// This side's address, by which a trace of the server knows the connection.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.stream.get_ref().local_addr()
    }

    /// Writes a request.
    pub fn send(&mut self, request: &Request<'_>) -> io::Result<()> {
        let length = format!("content-length: {}", request.body.len());
        let mut bytes = self.head(request, &length).into_bytes();
        bytes.extend_from_slice(request.body);
        self.stream.get_mut().write_all(&bytes)
    }

    /// Writes the head of a request whose body follows by [`Connection::write`]: so many bytes, or, without a number, in
    /// the frames of chunked transfer encoding.
    pub fn send_head(&mut self, request: &Request<'_>, length: Option<usize>) -> io::Result<()> {
        let length = length.map(|length| format!("content-length: {length}"));
        let head = self.head(request, length.as_deref().unwrap_or("transfer-encoding: chunked"));
        self.write(head.as_bytes())
    }

    /// Writes bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    fn head(&self, request: &Request<'_>, length: &str) -> String {
        let Request { method, target, headers, .. } = request;
        let mut text = format!("{method} {target} HTTP/1.1\r\nhost: {}\r\n", self.host);
        for (name, value) in *headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("{length}\r\n\r\n"));
        text
    }

    /// Reads an answer.
    pub fn receive(&mut self) -> io::Result<Response> {
        let (mut response, length) = self.receive_head()?;
        response.body = vec![0; length];
        self.stream.read_exact(&mut response.body)?;
        Ok(response)
    }

    /// Reads an answer up to its body, and says how long that is: it follows by [`Connection::read`].
    pub fn receive_head(&mut self) -> io::Result<(Response, usize)> {
        let first = self.line()?;
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| malformed(&first))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| malformed(&line))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length = length.map_or(Ok(0), |(_, value)| value.parse().map_err(|_| malformed(value)))?;
        Ok((Response { status, headers, body: Vec::new() }, length))
    }

    /// Reads so many bytes of an answer's body.
    pub fn read(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.stream.read_exact(bytes)
    }

    /// Whether anything of an answer has come, without waiting for it.
    pub fn has_answer(&self) -> io::Result<bool> {
        let stream = self.stream.get_ref();
        stream.set_nonblocking(true)?;
        let peeked = stream.peek(&mut [0]);
        stream.set_nonblocking(false)?;
        match peeked {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits for the begin of an answer and leaves it unread.
    pub fn wait_for_answer(&self) -> io::Result<()> {
        self.stream.get_ref().peek(&mut [0]).map(drop)
    }

    /// Says that nothing more will be asked, which the server takes for a hang-up, and takes what was answered before
    /// it noticed. `None`: no whole answer came.
    pub fn hang_up(mut self) -> Option<Response> {
        self.stream.get_ref().shutdown(Shutdown::Write).ok()?;
        self.receive().ok()
    }

    /// A request and its answer.
    pub fn exchange(&mut self, request: &Request<'_>) -> io::Result<Response> {
        self.send(request)?;
        self.receive()
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(malformed(&line)),
        }
    }
}

fn malformed(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not HTTP: {text:?}"))
}
