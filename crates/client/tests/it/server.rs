//! Servers to call: Millpond's own, on a memory store, and one that follows a script.

use std::sync::{Arc, Mutex};

use millpond_api::name::EnvironmentName;
use millpond_client::{Client, NewQueue, RetryPolicy};
use millpond_engine::{Engine, EngineSettings};
use millpond_server::config::DEFAULT_ENVIRONMENT;
use millpond_server::{AllowedHosts, App, CONNECTIONS, Shutdown, app, bind, serve};
use millpond_test_stores::{TestStore, new_store};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Millpond on a free port.
pub(crate) struct Server {
    pub(crate) client: Client,
    pub(crate) address: String,
    engine: Engine,
    stop: tokio::sync::oneshot::Sender<()>,
    served: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_on("127.0.0.1:0", Arc::new(new_store())).await
    }

    /// A server with the queue `q`.
    pub(crate) async fn with_queue(queue: NewQueue) -> Self {
        let server = Self::start().await;
        server.client.create_queue(&NewQueue { id: "q".to_owned(), ..queue }).await.expect("it is made");
        server
    }

    pub(crate) async fn start_on(listen: &str, disk: Arc<TestStore>) -> Self {
        let engine = Engine::start(EngineSettings::default(), disk);
        engine.create_environment(DEFAULT_ENVIRONMENT).await.expect("it is made");
        let listener = bind(listen.parse().expect("an address")).await.expect("it listens");
        let address = listener.local_addr().expect("an address");
        let home = EnvironmentName::parse("home", DEFAULT_ENVIRONMENT).expect("valid");
        let shutdown = Shutdown::default();
        let hosts = AllowedHosts::new(address, Vec::new());
        let served = App::new(engine.clone(), hosts, home, shutdown.watch());
        let connections = served.connections(CONNECTIONS);
        let router = app(served);
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let served = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            serve(listener, router, &connections, &shutdown, stopped).await;
        });
        let client = Client::new(format!("http://{address}")).expect("a client");
        Self { client, address: address.to_string(), engine, stop, served }
    }

    /// Stops it; the address is free afterwards.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        self.served.await.expect("it stops");
        self.engine.shut_down().await;
    }
}

/// What a scripted server does with one request.
#[derive(Clone, Debug)]
pub(crate) enum Line {
    /// Answers: status, further headers, body.
    Answer(u16, &'static str, String),
    /// Hangs up without an answer.
    HangUp,
}

/// A server that takes one connection for each line of its script.
pub(crate) struct Scripted {
    pub(crate) client: Client,
    requests: Arc<Mutex<Vec<String>>>,
    played: JoinHandle<()>,
}

impl Scripted {
    pub(crate) async fn start(lines: Vec<Line>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("it listens");
        let address = listener.local_addr().expect("an address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&requests);
        let played = tokio::spawn(async move {
            for line in lines {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                let request = read_request(&mut stream).await;
                heard.lock().expect("nobody panics").push(request);
                if let Line::Answer(status, headers, body) = line {
                    let head = format!(
                        "HTTP/1.1 {status} x\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n",
                        body.len()
                    );
                    stream.write_all((head + &body).as_bytes()).await.expect("written");
                }
            }
        });
        // Waits that make no difference to what is tested.
        let retry = RetryPolicy { base: std::time::Duration::from_millis(1), ..RetryPolicy::default() };
        let client = Client::builder(format!("http://{address}")).retry(retry).build().expect("a client");
        Self { client, requests, played }
    }

    /// The requests that came, all lines having been played.
    pub(crate) async fn requests(self) -> Vec<String> {
        self.played.await.expect("the script is played to its end");
        self.requests.lock().expect("nobody panics").clone()
    }
}

/// A request with its body, as text.
async fn read_request(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    loop {
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
            });
            if body.len() >= length.map_or(0, |length| length.expect("a number")) {
                return text;
            }
        }
        let mut bytes = [0; 4_096];
        let read = stream.read(&mut bytes).await.expect("readable");
        assert!(read > 0, "the request ends early: {text}");
        text.push_str(std::str::from_utf8(&bytes[..read]).expect("ascii"));
    }
}

/// A header of a request.
pub(crate) fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    let head = request.split("\r\n\r\n").next()?;
    head.lines().find_map(|line| {
        let (own, value) = line.split_once(':')?;
        own.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// What a server of one's own does with a request.
pub(crate) enum Reaction {
    /// Answers 200 with this body.
    Ok(String),
    /// Refuses: status, code, further headers.
    Refuse(u16, &'static str, &'static str),
    /// Never answers.
    Hang,
}

/// A server that does with each request what a function says.
pub(crate) struct Reacting {
    pub(crate) client: Client,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Reacting {
    /// `react` is given the method and path, and the body.
    pub(crate) async fn start(mut react: impl FnMut(&str, &str) -> Reaction + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("it listens");
        let address = listener.local_addr().expect("an address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&requests);
        tokio::spawn(async move {
            let mut hanging = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                let request = read_request(&mut stream).await;
                let (head, body) = request.split_once("\r\n\r\n").expect("a head");
                let line = head.split(" HTTP").next().unwrap_or_default();
                let (status, headers, body) = match react(line, body) {
                    Reaction::Ok(body) => (200, "", body),
                    Reaction::Refuse(status, code, headers) => {
                        let retryable = status >= 500;
                        let body = format!(
                            r#"{{"status": {status}, "code": "{code}", "retryable": {retryable}, "effect": "none"}}"#
                        );
                        (status, headers, body)
                    }
                    Reaction::Hang => {
                        heard.lock().expect("nobody panics").push(request);
                        hanging.push(stream);
                        continue;
                    }
                };
                heard.lock().expect("nobody panics").push(request);
                let head = format!(
                    "HTTP/1.1 {status} x\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                // A caller that has given up in the meantime hears nothing.
                let _: std::io::Result<()> = stream.write_all((head + &body).as_bytes()).await;
            }
        });
        let retry = RetryPolicy { base: std::time::Duration::from_millis(1), ..RetryPolicy::default() };
        let client = Client::builder(format!("http://{address}")).retry(retry).build().expect("a client");
        Self { client, requests }
    }

    /// The requests that came so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("nobody panics").clone()
    }
}
