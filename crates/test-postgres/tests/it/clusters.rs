//! A cluster that is stopped, killed, started again, and copied.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use millpond_test_postgres::Cluster;

const DATABASE: &str = "postgres";

fn numbers(cluster: &Cluster) -> Vec<String> {
    let rows = cluster.sql(DATABASE, "select n from t order by n").expect("it runs");
    rows.into_iter().flatten().flatten().collect()
}

fn insert(cluster: &Cluster, number: u32) {
    cluster.sql(DATABASE, &format!("insert into t values ({number})")).expect("it is inserted");
}

fn with_a_table() -> Cluster {
    let cluster = Cluster::start().expect("PostgreSQL runs");
    cluster.sql(DATABASE, "create table t (n integer)").expect("the table is made");
    insert(&cluster, 1);
    cluster
}

fn shown(cluster: &Cluster, setting: &str) -> String {
    let rows = cluster.sql(DATABASE, &format!("show {setting}")).expect("it runs");
    rows[0][0].clone().expect("it is set")
}

#[test]
fn it_flushes_takes_settings_and_does_not_run_as_root() {
    let cluster = Cluster::start_with(&[("synchronous_commit", "remote_apply")]).expect("PostgreSQL runs");
    assert_eq!(shown(&cluster, "fsync"), "on");
    assert_eq!(shown(&cluster, "synchronous_commit"), "remote_apply");
    assert_eq!(Path::new(&shown(&cluster, "data_directory")), cluster.data_dir());
    let process = format!("/proc/{}", cluster.process_id().expect("it runs"));
    assert_ne!(fs::metadata(process).expect("it is there").uid(), 0);
}

#[test]
fn databases_are_apart() {
    let cluster = Cluster::start().expect("PostgreSQL runs");
    let url = cluster.create_database("other").expect("it is made");
    assert_eq!(url, cluster.url("other"));
    cluster.sql("other", "create table only_here ()").expect("it is made");
    cluster.sql("other", "select from only_here").expect("it is there");
    cluster.sql(DATABASE, "select from only_here").expect_err("it is in the other one");
    cluster.create_database("other").expect_err("it is there already");
}

#[test]
fn after_a_stop_it_runs_again_on_the_same_port_and_data() {
    let mut cluster = with_a_table();
    let port = cluster.port();
    cluster.run().expect_err("it runs already");
    cluster.stop().expect("it stops");
    cluster.sql(DATABASE, "select 1").expect_err("it does not run");
    cluster.stop().expect_err("it does not run");
    cluster.run().expect("it runs again");
    assert_eq!((cluster.port(), numbers(&cluster)), (port, vec!["1".to_owned()]));
    assert!(!cluster.log().contains("was not properly shut down"), "{}", cluster.log());
}

#[test]
fn a_kill_is_a_crash_that_leaves_no_process_and_loses_nothing_committed() {
    let mut cluster = with_a_table();
    for number in 2..5 {
        insert(&cluster, number);
        let backend = cluster.process_id().expect("it runs");
        cluster.kill().expect("it is killed");
        assert_eq!(cluster.process_id(), None);
        assert!(!Path::new(&format!("/proc/{backend}")).exists(), "nobody has waited for it");
        cluster.run().expect("it runs again");
        assert_eq!(numbers(&cluster).len(), number as usize);
    }
    assert_eq!(cluster.log().matches("was not properly shut down").count(), 3, "{}", cluster.log());
}

#[test]
fn a_copy_can_be_put_back() {
    let mut cluster = with_a_table();
    let directory = tempfile::tempdir().expect("a directory can be made");
    let copy = directory.path().join("copy");
    cluster.copy_of_data(&copy).expect_err("it runs");
    cluster.stop().expect("it stops");
    cluster.copy_of_data(&copy).expect("it is copied");
    cluster.run().expect("it runs again");
    insert(&cluster, 2);
    cluster.kill().expect("it is killed");
    cluster.restore_data(directory.path()).expect_err("it is no copy");
    cluster.restore_data(&copy).expect("it is put back");
    cluster.run().expect("it runs again");
    assert_eq!(numbers(&cluster), ["1"]);
}

#[test]
fn what_keeps_the_server_from_starting_is_in_the_error() {
    let error = Cluster::start_with(&[("no_such_setting", "1")]).expect_err("it is refused");
    assert!(format!("{error:#}").contains("no_such_setting"), "{error:#}");
}

#[test]
fn dropped_it_leaves_nothing() {
    let cluster = with_a_table();
    let (process, data) = (format!("/proc/{}", cluster.process_id().expect("it runs")), cluster.data_dir());
    assert!(Path::new(&process).exists() && data.join("PG_VERSION").exists());
    drop(cluster);
    assert!(!Path::new(&process).exists());
    assert!(!data.parent().expect("it is below one").exists());
}
