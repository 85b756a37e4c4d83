//! A transaction beside the owner, by the SQL functions.

use std::time::Duration;

use millpond_core::command::LeaseRef;
use millpond_core::external::ExternalSend;
use millpond_core::id::MessageId;
use millpond_store::BesideError;
use millpond_store::persisted::data_kind_code;
use millpond_store_conformance::Beside;
use postgres::{Client, NoTls};

/// An open transaction.
pub(crate) struct SqlBeside {
    client: Client,
    environment: String,
}

impl SqlBeside {
    pub(crate) fn begin(url: &str, environment: &str) -> Self {
        let mut client = Client::connect(url, NoTls).expect("the database is reachable");
        let begin = "set search_path = millpond; set lock_timeout = '200ms'; begin";
        client.batch_execute(begin).expect("a transaction begins");
        Self { client, environment: environment.to_owned() }
    }

    /// Runs one call; what it raises ends the call, not the transaction.
    fn call<T>(
        &mut self,
        call: impl FnOnce(&mut Client) -> Result<T, postgres::Error>,
    ) -> Result<T, BesideError> {
        self.client.batch_execute("savepoint call").expect("it is open");
        let result = call(&mut self.client);
        let end = if result.is_ok() { "release call" } else { "rollback to call" };
        self.client.batch_execute(end).expect("it is open");
        result.map_err(|error| match error.code().map(postgres::error::SqlState::code) {
            Some("MP010") => BesideError::Stale,
            Some("MP012") => BesideError::NotAllowed,
            Some("42704") => BesideError::NoQueue,
            Some("55P03") => BesideError::Waits,
            _ => panic!("{error}: {:?}", error.as_db_error()),
        })
    }

    fn options(&self) -> String {
        format!(r#"{{"environment": "{}"}}"#, self.environment)
    }

    fn settle(
        &mut self,
        function: &str,
        lease: LeaseRef,
        delay: Option<Duration>,
    ) -> Result<(), BesideError> {
        let sql = format!(
            "select {function}($1, $2, null, $3::text::jsonb || jsonb_strip_nulls(jsonb_build_object('delivery', $4::text, 'retry_after', $5::float8)))"
        );
        let (message, generation) = (lease.message.to_string(), lease.generation.0.cast_signed());
        let (options, delivery) = (self.options(), lease.delivery.0.to_string());
        let delay = delay.map(|delay| delay.as_secs_f64());
        self.call(|client| {
            client.execute(&sql, &[&message, &generation, &options, &delivery, &delay]).map(drop)
        })
    }
}

impl Beside for SqlBeside {
    fn send(&mut self, send: ExternalSend) -> Result<MessageId, BesideError> {
        let content = &send.content.content;
        let kind = i16::try_from(data_kind_code(content.data_kind)).expect("codes are small");
        let seconds = |duration: Option<Duration>| duration.map(|duration| duration.as_secs_f64());
        let at = send.visible_at.map(|at| at.as_millis() as f64 / 1_000.0);
        let sql = "select put_message(environment_number($1), $2, $3, $4, $5, jsonb_strip_nulls(jsonb_build_object(\
                   'delay', $6::float8, 'time_to_live', $7::float8, 'priority', $8::int, 'partition', $9::text, \
                   'idempotency_key', $10::text, 'visible_at', to_timestamp($11::float8))))";
        let environment = self.environment.clone();
        let row = self.call(|client| {
            client.query_one(
                sql,
                &[
                    &environment,
                    &&*send.queue,
                    &&*content.attributes,
                    &kind,
                    &content.data.held(),
                    &seconds(send.content.delay),
                    &seconds(send.content.time_to_live),
                    &send.content.priority,
                    &send.partition.as_deref(),
                    &send.key.as_deref(),
                    &at,
                ],
            )
        })?;
        self.call(|client| client.batch_execute("select wake()"))?;
        Ok(row.get::<_, String>(0).parse().expect("it is an id"))
    }

    fn complete(&mut self, lease: LeaseRef) -> Result<(), BesideError> {
        self.settle("complete", lease, None)
    }

    fn fail(&mut self, lease: LeaseRef, delay: Option<Duration>) -> Result<(), BesideError> {
        self.settle("fail", lease, delay)
    }

    fn extend(&mut self, _: &str, lease: LeaseRef, by: Duration) -> Result<(), BesideError> {
        let sql = "select extend($1, $2, make_interval(secs => $3), $4::text::jsonb || jsonb_build_object('delivery', $5::text))";
        let (message, generation) = (lease.message.to_string(), lease.generation.0.cast_signed());
        let (options, delivery, by) = (self.options(), lease.delivery.0.to_string(), by.as_secs_f64());
        self.call(|client| client.execute(sql, &[&message, &generation, &by, &options, &delivery]).map(drop))
    }

    fn cancel(&mut self, queue: &str, message: MessageId) -> Result<(), BesideError> {
        let (options, message) = (self.options(), message.to_string());
        let sql = "select cancel($1, $2, $3::text::jsonb)";
        self.call(|client| client.execute(sql, &[&queue, &message, &options]).map(drop))
    }

    fn allow_settle(&mut self, queue: &str) -> Result<(), BesideError> {
        let options = self.options();
        let sql = "select allow_sql_settle($1, $2::text::jsonb)";
        self.call(|client| client.execute(sql, &[&queue, &options]).map(drop))
    }

    fn commit(mut self: Box<Self>) -> Result<(), BesideError> {
        self.client.batch_execute("commit").map_err(|_| BesideError::Over)
    }

    fn roll_back(mut self: Box<Self>) {
        self.client.batch_execute("rollback").expect("it is open");
    }
}
