//! Connections of an application that commit one row each.

use anyhow::{Context as _, bail};
use millpond_load::{Caller, Leased, Payload, Stamp, System};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};

use crate::peers::postgresql::Database;

/// What is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Insert {
    /// A message by the function.
    Send,
    /// The rows that the function writes, by an insert into a table like the one that it writes them to.
    Same,
    /// A row of a table that an application makes for this.
    Own,
}

/// The tables of the two that do without Millpond.
const TABLES: &str = "create table same (like millpond.intake including all); \
     create sequence same_id; create sequence same_sequence; \
     create table job (id bigint generated always as identity primary key, queue text not null, data jsonb not null, \
     created_at timestamptz not null default now()); create index on job (queue, id)";

const SAME: &str = "insert into same (id, environment, transaction, kind, queue, sequence, sent_at, nonce, attributes, data_kind, data, \
     priority) values (nextval('same_id'), 1, pg_current_xact_id(), 0, $1, nextval('same_sequence'), $3::bigint, $3::bigint, \
     '{\"id\":\"msg_0123456789ABCDEFGHJKMNPQRST\",\"source\":\"sql\",\"type\":\"message\",\"datacontenttype\":\"application/json\"}', \
     1, convert_to($2::text, 'UTF8'), 0)";
const OWN: &str = "insert into job (queue, data) values ($1, $2::text::jsonb)";
const SEND: &str = "select millpond.send($1, $2::text::jsonb)";

/// A database that is written to.
pub(crate) struct Sender {
    pub(crate) insert: Insert,
    url: String,
    queue: String,
    payload: Payload,
}

impl Sender {
    pub(crate) fn new(
        database: &Database,
        insert: Insert,
        queue: &str,
        data_bytes: u64,
    ) -> anyhow::Result<Self> {
        if insert != Insert::Send {
            database.cluster().sql("postgres", TABLES)?;
        }
        let payload = Payload::new(usize::try_from(data_bytes)?);
        Ok(Self { insert, url: database.url(), queue: queue.to_owned(), payload })
    }
}

impl System for Sender {
    type Caller = Connected;

    async fn caller(&self) -> anyhow::Result<Connected> {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await?;
        tokio::spawn(connection);
        let sql = match self.insert {
            Insert::Send => SEND,
            Insert::Same => SAME,
            Insert::Own => OWN,
        };
        let statement = client.prepare(sql).await.context(sql)?;
        let (queue, payload) = (self.queue.clone(), self.payload.clone());
        Ok(Connected { client, statement, queue, payload, number: 0 })
    }
}

/// One connection.
pub(crate) struct Connected {
    client: Client,
    statement: Statement,
    queue: String,
    payload: Payload,
    number: i64,
}

impl Caller for Connected {
    type Lease = ();

    async fn send(&mut self, _: usize, stamp: Stamp) -> anyhow::Result<()> {
        let mut data = vec![b'"'];
        self.payload.push(&mut data, stamp);
        data.push(b'"');
        let data = String::from_utf8(data)?;
        self.number += 1;
        let values: [&(dyn ToSql + Sync); 3] = [&self.queue, &data, &self.number];
        let wanted = self.statement.params().len();
        self.client.query(&self.statement, values.get(..wanted).unwrap_or(&values)).await?;
        Ok(())
    }

    async fn lease(&mut self, _: usize) -> anyhow::Result<Vec<Leased<()>>> {
        bail!("nothing is taken by SQL")
    }

    async fn ack(&mut self, _: Vec<Leased<()>>) -> anyhow::Result<()> {
        bail!("nothing is taken by SQL")
    }
}
