//! Descriptors of files and connections. Systems start programs with a low limit on them that the programs may raise.

use millpond_server::CONNECTIONS;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors kept for the stores, of which each open environment has several, and for the rest of the process.
const KEPT: u64 = 4_096;

/// Raises the limit on descriptors as far as it can be. Answers how many connections there may be: as many as wanted, or
/// fewer if the limit is too low for them. Without descriptors left, environments could not be opened either.
pub(crate) fn connections_that_fit(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let limit = if setrlimit(Resource::Nofile, raised).is_ok() { raised } else { limit };
    let Some(descriptors) = limit.current else { return wanted };
    let fit = usize::try_from(fit(descriptors)).unwrap_or(usize::MAX);
    if fit < wanted && wanted == CONNECTIONS {
        tracing::info!(descriptors, connections = fit, "fewer connections than usual: too few descriptors");
    } else if fit < wanted {
        tracing::warn!(
            descriptors,
            wanted,
            connections = fit,
            "fewer connections than set: too few descriptors"
        );
    }
    wanted.min(fit)
}

/// Connections for which there is room beside what is kept; if that is too much, half.
fn fit(descriptors: u64) -> u64 {
    descriptors.saturating_sub(KEPT).max(descriptors / 2).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_kept_for_the_stores() {
        assert_eq!([1_024, 8_192, 10_000, 1_048_576].map(fit), [512, 4_096, 5_904, 1_044_480]);
        assert_eq!(fit(0), 1);
    }
}
