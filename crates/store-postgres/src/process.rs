//! Which process this is, so that another one of the same machine can tell that it is gone.

use std::fs;

/// Boot, process namespace, number and start of this process; empty where the system does not tell.
pub(crate) fn this() -> String {
    let told = || {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
        let number = std::process::id();
        Some(format!("{} {} {number} {}", boot.trim(), namespace.display(), state_of(number)?.1))
    };
    told().unwrap_or_default()
}

/// Whether a process that [`this`] described was on this machine and is gone. When in doubt it is not.
pub(crate) fn is_gone(described: &str) -> bool {
    let (this, other) = (this(), parts(described));
    let (Some((place, ..)), Some((other_place, number, start))) = (parts(&this), other) else { return false };
    place == other_place
        && (state_of(number).is_some_and(|(lives, running)| !lives || running != start) || is_unknown(number))
}

/// No process has the number. That its file cannot be read says nothing: some systems show each user only his own.
fn is_unknown(number: u32) -> bool {
    let number = i32::try_from(number).ok().and_then(rustix::process::Pid::from_raw);
    number.is_some_and(|number| rustix::process::test_kill_process(number) == Err(rustix::io::Errno::SRCH))
}

fn parts(described: &str) -> Option<(&str, u32, u64)> {
    let (rest, start) = described.rsplit_once(' ')?;
    let (place, number) = rest.rsplit_once(' ')?;
    Some((place, number.parse().ok()?, start.parse().ok()?))
}

/// Whether a process lives, or only waits to be buried, and when it began, in ticks since the machine did. `None`: that is not told.
fn state_of(number: u32) -> Option<(bool, u64)> {
    let status = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let mut fields = status.rsplit_once(')')?.1.split_whitespace();
    let lives = fields.next()? != "Z";
    Some((lives, fields.nth(18)?.parse().ok()?))
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

    #[test]
    fn a_process_of_which_nothing_is_told_is_not_gone() {
        assert!(!is_unknown(std::process::id()));
        // It belongs to somebody else, unless this is root.
        assert!(!is_unknown(1));
        assert!(!is_unknown(0), "no number of a process");
    }
}
