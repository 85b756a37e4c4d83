//! Namespaces of the kernel for tests: a file system of a given size, a network that can be cut. A process that does nothing
//! holds them; they are gone with it, and it is gone with whoever made it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// What a process sees that nobody else does.
#[derive(Debug)]
pub struct Apart {
    /// Ends when its stdin does.
    holder: Child,
    has_files: bool,
    has_network: bool,
}

impl Apart {
    /// File systems of its own: a new one of so many MiB, in memory, on a directory.
    ///
    /// # Errors
    /// This is not root, or root may not.
    pub fn with_room(directory: &Path, mebibytes: u32) -> anyhow::Result<Self> {
        let mount = format!("mount -t tmpfs -o size={mebibytes}m,mode=0777 none '{}'", directory.display());
        Self::hold("--mount", &mount, true, false)
    }

    /// A network of its own, which has nothing but 127.0.0.1.
    ///
    /// # Errors
    /// This is not root, or root may not.
    pub fn with_network() -> anyhow::Result<Self> {
        Self::hold("--net", "ip link set lo up", false, true)
    }

    /// A cable between this network and another one, with an address at each end.
    ///
    /// # Errors
    /// The kernel has no such cables.
    pub fn join(&self, own: &str, other: &Self, others: &str) -> anyhow::Result<()> {
        let peer = other.holder.id().to_string();
        self.ip(&["link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", &peer])?;
        for (end, address) in [(self, own), (other, others)] {
            end.ip(&["address", "add", &format!("{address}/24"), "dev", "cable"])?;
            end.ip(&["link", "set", "cable", "up"])?;
        }
        Ok(())
    }

    /// Pulls this end of the cable, or puts it back: what passes meanwhile is lost without a word.
    ///
    /// # Errors
    /// There is no cable.
    pub fn pull(&self, is_out: bool) -> anyhow::Result<()> {
        self.ip(&["link", "set", "cable", if is_out { "down" } else { "up" }])
    }

    /// A path as who is not apart finds it.
    pub fn seen_from_outside(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// What a command is run by to be within: put in front of its words.
    pub fn words(&self) -> Vec<String> {
        let of = |kind: &str, name| format!("--{kind}=/proc/{}/ns/{name}", self.holder.id());
        let mut words = vec!["nsenter".to_owned()];
        words.extend(self.has_files.then(|| of("mount", "mnt")));
        words.extend(self.has_network.then(|| of("net", "net")));
        words
    }

    /// Works on this network. What is started there stays there, and connections that are opened do.
    ///
    /// # Errors
    /// It has none, or it is gone.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        ensure!(self.has_network, "it has no network of its own");
        let network = fs::File::open(format!("/proc/{}/ns/net", self.holder.id()));
        let network = network.context("the network is gone")?;
        // Each thread has its network; this one goes on with its own.
        let done = std::thread::scope(|scope| {
            let moved = scope.spawn(|| {
                move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
                anyhow::Ok(work())
            });
            moved.join()
        });
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn hold(kind: &str, first: &str, has_files: bool, has_network: bool) -> anyhow::Result<Self> {
        let script = format!("{first} && echo ready && exec cat > /dev/null");
        let mut command = Command::new("unshare");
        command.args([kind, "sh", "-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        // As the guard: who interrupts the tests at a terminal does not mean it.
        command.process_group(0);
        let holder = command.spawn().context("unshare cannot be run")?;
        let mut own = Self { holder, has_files, has_network };
        let mut said = String::new();
        let stdout = own.holder.stdout.take().context("stdout is a pipe")?;
        BufReader::new(stdout).read_line(&mut said)?;
        ensure!(said == "ready\n", "no namespaces: {kind} needs root, and a system that lets it");
        Ok(own)
    }

    fn ip(&self, words: &[&str]) -> anyhow::Result<()> {
        let within = self.words();
        let (program, rest) = within.split_first().context("nsenter")?;
        let output =
            Command::new(program).args(rest).arg("ip").args(words).output().context("ip cannot be run")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "ip {words:?}: {said}");
        Ok(())
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        if let Err(error) = self.holder.wait() {
            eprintln!("the holder of a namespace cannot be waited for: {error}");
        }
    }
}
