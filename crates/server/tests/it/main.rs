//! Black-box tests: through the router without a socket, and of connections over real ones.

mod connections;
mod dead_letters;
mod documented;
mod errors;
mod gate;
mod guards;
mod hang_ups;
mod harness;
mod keys;
mod large_data;
mod leases;
mod limits;
mod listings;
mod logs;
mod messages;
mod metrics;
mod queues;
mod routes;
mod sends;
mod settles;
mod stops;
mod sylphx;
mod too_many;
mod updates;
mod uploads;
mod vercel;
