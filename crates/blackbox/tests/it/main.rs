//! Promises that only the running binary can keep or break.

mod backups;
mod bench;
mod disk_full;
mod documents;
mod fencing;
mod flush;
mod hang_ups;
mod killed_workers;
mod large_bodies;
mod left_out;
mod nothing_lost;
mod openapi;
mod postgres;
mod python;
mod real_senders;
mod refusals;
mod restores;
mod sylphx;
mod terminals;
mod vercel;
mod vercel_push;
