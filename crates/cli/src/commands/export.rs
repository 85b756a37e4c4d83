//! `millpond export`: an environment as lines, for a store of any kind.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use millpond_core::time::Timestamp;
use millpond_moving::{Moved, Origin, export};
use millpond_store::Snapshots;

use super::moved::{failure, show};
use super::offline::{Place, environment_name};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Format, count_of, tell};
use crate::progress;
use crate::serve_arguments::DatabaseArguments;

const WHAT: &str = "export an environment";

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 1 << 20;

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// A backup, or the directory of the data of a server that does not run
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    #[command(flatten)]
    database: DatabaseArguments,

    /// The environment, as orgs/ORG/projects/PROJECT/envs/ENV [default: the only one that there is]
    #[arg(long, env = "MILLPOND_ENVIRONMENT", value_name = "NAME", value_parser = environment_name)]
    environment: Option<String>,

    /// File to make; - is stdout
    #[arg(long, value_name = "FILE")]
    to: PathBuf,

    #[command(flatten)]
    format: Format,
}

impl Export {
    pub(crate) fn run(&self) -> Outcome {
        let to_stdout = self.to == Path::new("-");
        if to_stdout && self.format.json {
            let why = "stdout is for the export itself";
            return Err(
                Failure::usage(format!("cannot {WHAT}"), why).advise("leave --json away, or name a file")
            );
        }
        if !to_stdout && self.to.exists() {
            let why = format!("{} is there already", self.to.display());
            return Err(
                Failure::new(Exit::Refused, format!("cannot {WHAT}"), why).advise("name another file")
            );
        }
        let place = Place::of(WHAT, self.data_dir.as_deref(), &self.database)?;
        let snapshots = place.snapshots().map_err(|error| place.failure(WHAT, &error))?;
        let name = self.name(&place, snapshots.as_ref())?;
        if to_stdout {
            let mut stdout = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
            let moved = self.write(&place, snapshots.as_ref(), &name, &mut stdout)?;
            tell(&format!("exported {} of {name}", count_of(moved.counts.total(), "row")));
            return Ok(Exit::Done);
        }
        let moved = self.to_file(&place, snapshots.as_ref(), &name)?;
        show(self.format, &self.to, &moved)
    }

    fn name(&self, place: &Place, snapshots: &dyn Snapshots) -> Outcome<String> {
        let known = snapshots.environments().map_err(|error| place.failure(WHAT, &error))?;
        let refused = |why: String, known: Vec<String>| {
            let failure = Failure::new(Exit::Refused, format!("cannot {WHAT}"), why);
            Err(failure.detail(known).advise("name one of those above with --environment"))
        };
        match (&self.environment, known.as_slice()) {
            (Some(name), _) if known.contains(name) => Ok(name.clone()),
            (Some(name), _) => refused(format!("{place} does not hold {name}"), known),
            (None, [only]) => Ok(only.clone()),
            (None, _) => {
                let count = count_of(known.len() as u64, "environment");
                refused(format!("{place} holds {count}"), known)
            }
        }
    }

    /// Under another name until it is whole.
    fn to_file(&self, place: &Place, snapshots: &dyn Snapshots, name: &str) -> Outcome<Moved> {
        let mut unfinished = self.to.as_os_str().to_owned();
        unfinished.push(".part");
        let unfinished = PathBuf::from(unfinished);
        let failed = |error: io::Error| {
            let why = format!("{}: {error}", unfinished.display());
            Failure::new(Exit::Refused, format!("cannot {WHAT}"), why)
                .advise("check the path, and the room there")
        };
        let file = File::create_new(&unfinished).map_err(|error| match error.kind() {
            // Another export writes it, or one was killed.
            io::ErrorKind::AlreadyExists => {
                let why = format!("{} is there already", unfinished.display());
                Failure::new(Exit::Refused, format!("cannot {WHAT}"), why)
                    .advise("wait for the export that writes it; if there is none, remove it")
            }
            _ => failed(error),
        })?;
        let mut file = BufWriter::with_capacity(BUFFER_BYTES, file);
        let moved = self.write(place, snapshots, name, &mut file);
        let finish = |moved: Moved| {
            file.into_inner()?.sync_all()?;
            fs::rename(&unfinished, &self.to)?;
            let directory = self.to.parent().filter(|parent| *parent != Path::new(""));
            File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
            Ok(moved)
        };
        let moved = moved.and_then(|moved| finish(moved).map_err(failed));
        if moved.is_err() {
            // Its name says what it is.
            let _: io::Result<()> = fs::remove_file(&unfinished);
        }
        moved
    }

    fn write(
        &self,
        place: &Place,
        snapshots: &dyn Snapshots,
        name: &str,
        to: &mut dyn io::Write,
    ) -> Outcome<Moved> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let origin = Origin {
            made_by: concat!("millpond ", env!("CARGO_PKG_VERSION")),
            made_at: Timestamp::from_millis(i64::try_from(now).unwrap_or(i64::MAX)),
        };
        let bar = progress::of_rows();
        let mut to = to;
        let moved = export(snapshots, name, origin, &mut to, &mut |progress| {
            bar.set_length(progress.rows_total);
            bar.set_position(progress.rows);
        });
        bar.finish_and_clear();
        let moved = moved.map_err(|error| failure(WHAT, place, &error))?;
        to.flush().map_err(|error| failure(WHAT, place, &millpond_moving::MoveError::Write(error)))?;
        Ok(moved)
    }
}
