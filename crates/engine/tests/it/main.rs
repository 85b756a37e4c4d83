//! The engine on threads, over the memory store and on a clock that the test moves.

mod support;
mod uploads;

mod answers;
mod backups;
mod bulk;
mod embedding;
mod environments;
mod external;
mod failures;
mod lifecycle;
mod rounds;
