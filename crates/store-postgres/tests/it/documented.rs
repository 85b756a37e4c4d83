//! The SQL that `docs/postgresql.md` tells people runs as it stands.

use millpond_core::id::{LeaseGeneration, QueueNumber, Sequence};
use millpond_core::row::{DeliveryRow, DeliveryState, QueueRow, Role};
use millpond_core::time::Timestamp;
use millpond_store::StoreFactory as _;
use millpond_store_conformance::rows::{Owner, delivery, insert, queue};
use millpond_test_postgres::Cluster;

use crate::factory;

const PAGE: &str = include_str!("../../../../docs/postgresql.md");
const DEFAULT: &str = "orgs/default/projects/default/envs/default";
const OTHER: &str = "orgs/acme/projects/shop/envs/prod";
/// The lease in the examples.
const MESSAGE: &str = "msg_06EZ3TB6ZG0000G00000RTQ3MZ";
const GENERATION: u64 = 1_048_577;

/// What the examples speak of: two queues that SQL settles, a topic, a message that is leased, tables and a role.
fn prepare(cluster: &Cluster, owner: &mut Owner) {
    let named = |number, name: &str, role| QueueRow {
        name: name.into(),
        role,
        deleted: false,
        settled_by_sql: true,
        ..queue(number)
    };
    owner.commit(|changes| {
        changes.queues_put.push(named(1, "mail", Role::Queue));
        changes.queues_put.push(named(2, "topics/news", Role::Topic));
        let group = Role::Group { topic: QueueNumber(2) };
        changes.queues_put.push(named(3, "topics/news/groups/billing", group));
    });
    let parts = cluster.sql("postgres", &format!("select * from millpond.read_message_id('{MESSAGE}')"));
    let parts: Vec<i64> = parts.expect("it is an id")[0]
        .iter()
        .map(|part| part.as_ref().expect("a part").parse().expect("a number"))
        .collect();
    let leased = DeliveryRow {
        queue: QueueNumber(1),
        state: DeliveryState::Leased,
        due_at: Timestamp::from_millis(4_000_000_000_000),
        lease_generation: LeaseGeneration(GENERATION),
        sent_at: Timestamp::from_millis(parts[0]),
        nonce: parts[2].cast_unsigned(),
        ..delivery(parts[1].cast_unsigned())
    };
    assert!(!leased.sequence.is_external() && leased.message == Sequence(parts[1].cast_unsigned()));
    owner.commit(|changes| {
        changes.environment.leases_void_below = LeaseGeneration(0);
        insert(changes, leased);
    });
    let tables = "create table orders (id integer, total integer); create table invoices (order_id integer); \
                  create role app";
    cluster.sql("postgres", tables).expect("they are made");
}

#[test]
fn the_sql_of_the_page_works() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let factory = factory(&cluster.url("postgres"));
    let mut owner = Owner::open_named(&factory, DEFAULT);
    factory.create_environment(OTHER).expect("it is made");
    prepare(&cluster, &mut owner);
    let blocks = PAGE.split("```sql\n").skip(1).filter_map(|block| block.split("\n```").next());
    let mut run = 0;
    for block in blocks {
        // Nothing of it stays: the next one finds the same.
        let body = block.replace("begin;\n", "").replace("commit;", "");
        let done = cluster.sql("postgres", &format!("begin; {body}; rollback"));
        done.unwrap_or_else(|error| panic!("{block}: {error:#}"));
        run += 1;
    }
    assert!(run >= 10, "{run} examples");
}

#[test]
fn every_function_that_a_role_is_granted_has_its_section_and_every_view_its_columns() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let _factory = factory(&cluster.url("postgres"));
    let described = "select proname from pg_proc p join pg_description d on d.objoid = p.oid \
                     where pronamespace = 'millpond'::regnamespace";
    let functions = cluster.sql("postgres", described).expect("the catalogs can be read");
    assert!(functions.len() >= 10, "{functions:?}");
    for row in functions {
        let name = row[0].clone().expect("a name");
        assert!(
            PAGE.contains(&format!("select millpond.{name}("))
                || PAGE.contains(&format!("from millpond.{name}(")),
            "{name}"
        );
        assert!(PAGE.contains(&format!("`{name}(")), "{name}: its arguments");
    }
    let columns = "select table_name, column_name from information_schema.columns where table_schema = 'millpond' \
                   and table_name in (select table_name from information_schema.views) order by ordinal_position";
    for row in cluster.sql("postgres", columns).expect("the catalogs can be read") {
        let (view, column) = (row[0].clone().expect("a name"), row[1].clone().expect("a name"));
        let line = PAGE.lines().find(|line| line.starts_with(&format!("| `{view}` |")));
        let line = line.unwrap_or_else(|| panic!("the view {view} is not described"));
        assert!(view == "dead_letters" || line.contains(&format!("`{column}`")), "{view}: {column}");
    }
}
