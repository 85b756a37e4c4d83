//! What only Millpond on PostgreSQL is asked.

pub(crate) mod held;
pub(crate) mod passed;
pub(crate) mod sender;
pub(crate) mod settling;
pub(crate) mod sql;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use millpond_load::{Figures, describe};
use serde_json::{Map, Value, json};

use crate::daemon::first_line;
use crate::peers::postgresql::Database;
use crate::run::server_version;

/// What all of these take.
#[derive(Args)]
pub(crate) struct Binary {
    /// The binary of Millpond
    #[arg(long, default_value = "../target/release/millpond")]
    pub(crate) millpond: PathBuf,
}

impl Binary {
    /// What was measured, and on what.
    pub(crate) fn report(&self, kind: &str, settings: &Value, measured: &Value) -> anyhow::Result<String> {
        let version = first_line(std::process::Command::new(&self.millpond).arg("--version"))?;
        let report = json!({
            "kind": kind,
            "machine": describe(),
            "version": format!("{version}, {}", server_version()?),
            "settings": settings,
            "measured": measured,
        });
        Ok(format!("{}\n", serde_json::to_string_pretty(&report)?))
    }
}

pub(crate) fn json_of(figures: &Figures) -> Map<String, Value> {
    figures
        .named()
        .into_iter()
        .map(|(name, value)| (name.to_owned(), json!((value * 10.0).round() / 10.0)))
        .collect()
}

/// Tables and indexes of the schema with their bytes, the largest first.
const SIZES: &str = "select c.relname, case c.relkind when 'i' then pg_relation_size(c.oid) else pg_table_size(c.oid) end as bytes, \
     c.relkind, coalesce(s.n_dead_tup, 0), coalesce(s.autovacuum_count, 0) from pg_class c \
     left join pg_stat_user_tables s on s.relid = c.oid \
     where c.relnamespace = 'millpond'::regnamespace and c.relkind in ('r', 'i') order by 2 desc, 1";

/// One object for each of them.
pub(crate) fn sizes(database: &Database) -> anyhow::Result<Value> {
    let rows = database.cluster().sql("postgres", SIZES)?;
    let relation = |row: Vec<Option<String>>| -> anyhow::Result<Value> {
        let mut cells = row.into_iter().map(Option::unwrap_or_default);
        let mut next = || cells.next().context("it has five columns");
        let (name, bytes, kind): (_, u64, _) = (next()?, next()?.parse()?, next()?);
        let (dead_rows, vacuums): (u64, u64) = (next()?.parse()?, next()?.parse()?);
        Ok(
            json!({ "name": name, "bytes": bytes, "is_index": kind == "i", "dead_rows": dead_rows, "vacuums": vacuums }),
        )
    };
    rows.into_iter().map(relation).collect::<anyhow::Result<Vec<_>>>().map(Value::from)
}
