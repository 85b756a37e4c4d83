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
    pub(crate) fn ask(self, what: &str, question: &str) -> Outcome<()> {
        let mut stderr = io::stderr().lock();
        let mut answer = String::new();
        let asked = write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush());
        asked
            .and_then(|()| io::stdin().read_line(&mut answer))
            .map_err(|error| Failure::new(Exit::Refused, format!("cannot {what}"), error.to_string()))?;
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Failure::new(Exit::Refused, format!("did not {what}"), "it was not confirmed")),
        }
    }
}
