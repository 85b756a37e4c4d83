//! Calls against targets that the tests hold.

mod broken;
mod examples;
mod networks;
mod pushes;
mod replies;
mod target;
mod tls;
