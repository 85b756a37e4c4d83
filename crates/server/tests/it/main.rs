//! Black-box tests: through the router without a socket, and of connections over real ones.

mod connections;
mod errors;
mod gate;
mod guards;
mod hang_ups;
mod harness;
mod leases;
mod limits;
mod logs;
mod metrics;
mod queues;
mod routes;
mod sends;
mod stops;
mod sylphx;
mod too_many;
