//! The PostgreSQL store keeps the contract.

use std::rc::Rc;

use millpond_store::StoreFactory;
use millpond_store_conformance::{Beside, Place, exercise};
use millpond_test_postgres::{Cluster, unique_name};

use crate::beside::SqlBeside;
use crate::factory;

/// A database of its own, and a copy of it as a dump that is loaded gives: another database.
struct Database {
    cluster: Rc<Cluster>,
    name: String,
    copy: String,
}

impl Database {
    fn new(cluster: &Rc<Cluster>) -> Self {
        let (name, copy) = (unique_name(), unique_name());
        cluster.create_database(&name).expect("the server runs");
        Self { cluster: Rc::clone(cluster), name, copy }
    }

    fn sql(&self, sql: &str) {
        self.cluster.sql("postgres", sql).expect("the server runs");
    }
}

impl Place for Database {
    fn factory(&mut self) -> Box<dyn StoreFactory> {
        Box::new(factory(&self.cluster.url(&self.name)))
    }

    fn back_up(&mut self) {
        self.sql(&format!("create database {} template {}", self.copy, self.name));
    }

    fn restore(&mut self) {
        self.sql(&format!("drop database {} with (force)", self.name));
        self.sql(&format!("create database {} template {}", self.name, self.copy));
    }

    fn beside(&mut self, environment: &str) -> Option<Box<dyn Beside>> {
        Some(Box::new(SqlBeside::begin(&self.cluster.url(&self.name), environment)))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.sql(&format!("drop database if exists {} with (force)", self.name));
        self.sql(&format!("drop database if exists {} with (force)", self.copy));
    }
}

#[test]
fn the_postgres_store_keeps_the_contract() {
    let cluster = Rc::new(Cluster::start().expect("PostgreSQL is installed"));
    assert!(exercise(|| Box::new(Database::new(&cluster))).is_empty(), "nothing is left out");
}
