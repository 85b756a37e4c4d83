//! `millpond import`: commits what was exported into an empty environment.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use clap::Args;
use millpond_moving::import;

use super::moved::{failure, show};
use super::offline::{Place, environment_name};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Format;
use crate::progress;
use crate::serve_arguments::DatabaseArguments;

const WHAT: &str = "import an environment";

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 20;

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// Where to: the directory of the data, made if there is none; no server serves it
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    #[command(flatten)]
    database: DatabaseArguments,

    /// What `millpond export` wrote; - is stdin
    #[arg(long, value_name = "FILE")]
    from: PathBuf,

    /// The environment to fill, as orgs/ORG/projects/PROJECT/envs/ENV [default: of the name that it had]
    #[arg(long, value_name = "NAME", value_parser = environment_name)]
    environment: Option<String>,

    #[command(flatten)]
    format: Format,
}

impl Import {
    pub(crate) fn run(&self) -> Outcome {
        let place = Place::of(WHAT, self.data_dir.as_deref(), &self.database)?;
        let mut from: Box<dyn BufRead> = if self.from == Path::new("-") {
            Box::new(BufReader::with_capacity(BUFFER_BYTES, io::stdin().lock()))
        } else {
            let file = File::open(&self.from).map_err(|error| {
                let why = format!("{}: {error}", self.from.display());
                Failure::new(Exit::Refused, format!("cannot {WHAT}"), why).advise("check the path")
            })?;
            Box::new(BufReader::with_capacity(BUFFER_BYTES, file))
        };
        let into = place.make().map_err(|error| place.failure(WHAT, &error))?;
        let bar = progress::of_rows();
        let moved = import(&mut from, into.as_ref(), self.environment.as_deref(), &mut |progress| {
            bar.set_length(progress.rows_total);
            bar.set_position(progress.rows);
        });
        bar.finish_and_clear();
        show(self.format, &self.from, &moved.map_err(|error| failure(WHAT, &place, &error))?)
    }
}
