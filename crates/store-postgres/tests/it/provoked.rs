//! Errors that a real server is brought to give, by settings of the role and from beside.

use millpond_store::{StoreErrorKind, StoreFactory as _};
use millpond_store_conformance::rows::{Owner, assert_fails};

use crate::factory;
use crate::failures::{DATABASE, ENVIRONMENT, cluster, commit, sql, wait_for};

/// Ends all connections but the one that asks.
const END_ALL: &str = "select pg_terminate_backend(pid) from pg_stat_activity \
     where backend_type = 'client backend' and pid <> pg_backend_pid()";

#[test]
fn settings_of_the_role_that_a_connection_makes_itself_stand_in_no_ones_way() {
    let cluster = cluster();
    for setting in [
        "default_transaction_isolation = 'serializable'",
        "statement_timeout = '1ms'",
        "lock_timeout = '1ms'",
        "idle_in_transaction_session_timeout = '1ms'",
        "search_path = 'pg_temp'",
        "timezone = 'Asia/Kolkata'",
        "datestyle = 'SQL, DMY'",
        "intervalstyle = 'sql_standard'",
        "bytea_output = 'escape'",
        "standard_conforming_strings = off",
        "extra_float_digits = 0",
        "row_security = off",
        "enable_indexscan = off",
    ] {
        sql(&cluster, &format!("alter role postgres set {setting}"));
        let factory = factory(&cluster.url(DATABASE));
        let mut owner = Owner::open_named(&factory, ENVIRONMENT);
        assert!(commit(&mut owner).expect(setting));
        assert!(owner.delivery(owner.commit).is_some());
        drop(owner);
        drop(factory);
        sql(&cluster, "alter role postgres reset all");
    }
}

#[test]
fn connections_stay_although_the_role_ends_those_that_are_idle() {
    let cluster = cluster();
    sql(&cluster, "alter role postgres set idle_session_timeout = '200ms'");
    let factory = factory(&cluster.url(DATABASE));
    let mut owner = Owner::open_named(&factory, ENVIRONMENT);
    assert!(commit(&mut owner).expect("it works"));
    let own = "from pg_stat_activity where application_name = 'millpond'";
    let before = sql(&cluster, &format!("select pid {own} order by pid"));
    let other = postgres::Client::connect(
        &format!("{}?application_name=other", cluster.url(DATABASE)),
        postgres::NoTls,
    );
    other.as_ref().expect("it is reachable");
    wait_for(&cluster, "not exists (select from pg_stat_activity where application_name = 'other')");
    let after = sql(&cluster, &format!("select pid {own} order by pid"));
    assert!(!before.is_empty() && before.iter().all(|pid| after.contains(pid)), "{before:?} {after:?}");
}

#[test]
fn a_role_that_may_only_read_is_unavailable_until_it_may_write() {
    let cluster = cluster();
    let factory = factory(&cluster.url(DATABASE));
    let mut owner = Owner::open_named(&factory, ENVIRONMENT);
    assert!(commit(&mut owner).expect("it works"));
    sql(&cluster, "alter role postgres set default_transaction_read_only = on");
    sql(&cluster, END_ALL);
    let refused = || factory.create_environment("orgs/a/projects/b/envs/c");
    assert_fails(refused(), StoreErrorKind::Unavailable);
    sql(&cluster, "begin read write; alter role postgres reset all; commit");
    while !commit(&mut owner).expect("it may write again") {}
    assert!(owner.delivery(owner.commit).is_some());
}
