//! Clusters, schemas and `with-postgres`, each with the real PostgreSQL.

mod clusters;
mod commands;
mod schemas;
