//! `millpond completions`: a script that a shell completes this command line with.

use clap::{Args, CommandFactory as _};
use clap_complete::{Shell, generate};

use crate::arguments::Arguments;
use crate::exit::{Exit, Outcome};
use crate::output::print_bytes;

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> Outcome {
        let mut script = Vec::new();
        generate(self.shell, &mut Arguments::command(), "millpond", &mut script);
        print_bytes(&script)?;
        Ok(Exit::Done)
    }
}
