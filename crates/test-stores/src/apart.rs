//! Calls of a store from tests, which may be tasks.

/// Does this in a thread of its own. Stores block, and some have a runtime for that, which cannot be entered from within
/// another; the engine calls them from threads, where tests may stand in a runtime.
pub(crate) fn apart<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| match scope.spawn(act).join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
