//! Which process this is, so that another one of the same machine can tell that it is gone.

use std::fs;

/// Boot, process namespace, number and start of this process; empty where the system does not tell.
pub(crate) fn this() -> String {
    let told = || {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
        let number = std::process::id();
        Some(format!("{} {} {number} {}", boot.trim(), namespace.display(), start_of(number)?))
    };
    told().unwrap_or_default()
}

/// Whether a process that [`this`] described was on this machine and is gone. When in doubt it is not.
pub(crate) fn is_gone(described: &str) -> bool {
    let (this, other) = (this(), parts(described));
    let (Some((place, ..)), Some((other_place, number, start))) = (parts(&this), other) else { return false };
    place == other_place && start_of(number).is_none_or(|running| running != start)
}

fn parts(described: &str) -> Option<(&str, u32, u64)> {
    let (rest, start) = described.rsplit_once(' ')?;
    let (place, number) = rest.rsplit_once(' ')?;
    Some((place, number.parse().ok()?, start.parse().ok()?))
}

/// When a process began, in ticks since the machine did; `None`: there is none, or it only waits to be buried.
fn start_of(number: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let mut fields = status.rsplit_once(')')?.1.split_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ended_is_gone_and_one_of_elsewhere_may_live() {
        assert!(!is_gone(&this()));
        let mut child = std::process::Command::new("true").spawn().expect("it starts");
        let (place, ..) = parts(&this()).map(|(place, ..)| (place.to_owned(),)).expect("this system tells");
        let described = format!("{place} {} {}", child.id(), u64::MAX);
        assert!(is_gone(&described), "another process has its number, or none");
        child.wait().expect("it ends");
        assert!(is_gone(&described));
        assert!(!is_gone(&format!("elsewhere {} 1", u32::MAX)));
        assert!(!is_gone("") && !is_gone("nonsense"));
    }
}
