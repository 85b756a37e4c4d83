//! Asks before what cannot be taken back. Where nobody can be asked it has to be said beforehand, with `--yes`.

use std::io::{self, IsTerminal as _, Write as _};

use clap::Args;

use crate::exit::{Exit, Failure, Outcome};

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Confirm {
    /// Do it without asking
    #[arg(long, short)]
    yes: bool,
}

impl Confirm {
    /// Whether nothing has to be asked.
    pub(crate) fn is_given(self) -> bool {
        self.yes
    }

    /// Refuses early where nobody can be asked, so that nothing is looked up in vain. `what` completes "cannot".
    pub(crate) fn check(self, what: &str) -> Outcome<()> {
        if self.yes || (io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return Ok(());
        }
        let why = "it cannot be taken back, and there is no terminal to ask on";
        Err(Failure::usage(format!("cannot {what}"), why).advise("add --yes if you mean it"))
    }

    /// Asks, and fails unless the answer is yes.
    pub(crate) async fn ask(self, what: &str, question: &str) -> Outcome<()> {
        let question = format!("{question} [y/N] ");
        let failed =
            |error: io::Error| Failure::new(Exit::Refused, format!("cannot {what}"), error.to_string());
        // On a thread of its own, so that Ctrl-C is heard meanwhile.
        let asked = tokio::task::spawn_blocking(move || {
            let mut stderr = io::stderr();
            write!(stderr, "{question}")?;
            stderr.flush()?;
            let mut answer = String::new();
            io::stdin().read_line(&mut answer)?;
            Ok(answer)
        });
        let answer = asked.await.map_err(io::Error::other).and_then(|answer| answer).map_err(failed)?;
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Failure::new(Exit::Refused, format!("did not {what}"), "it was not confirmed")),
        }
    }
}
