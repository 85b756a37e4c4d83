//! Open files, as SQLite uses them.
//!
//! Invariant: a handle's `Open` is alive from [`put`] to `close`, which SQLite calls exactly once.
#![allow(unsafe_code, reason = "SQLite's file layer is a table of C functions")]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_io_methods};

use super::lock;
use super::locks::{EXCLUSIVE, SLOTS};
use super::medium::{Failure, File, Medium};
use super::shared_memory::{REGION_BYTES, SharedMemory};

/// What SQLite allocates for each open file.
#[repr(C)]
struct Handle {
    base: sqlite3_file,
    open: *mut Open,
}

/// An open file.
pub(super) struct Open {
    medium: Arc<Mutex<Medium>>,
    generation: u64,
    file: u64,
    /// Tells handles apart in locks.
    handle: u64,
    shared_memory: Option<Arc<SharedMemory>>,
    /// To be deleted when it is closed.
    temporary: Option<String>,
}

impl Open {
    pub(super) fn new(
        medium: Arc<Mutex<Medium>>,
        generation: u64,
        file: u64,
        temporary: Option<String>,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let handle = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { medium, generation, file, handle, shared_memory: None, temporary }
    }

    fn with_file<T>(&self, use_file: impl FnOnce(&mut File) -> T) -> Result<T, Failure> {
        lock(&self.medium).file(self.generation, self.file).map(use_file)
    }
}

/// Bytes that SQLite allocates for each open file.
pub(super) const BYTES: usize = size_of::<Handle>();

/// Makes an open file of the room that SQLite gave.
///
/// Safety: `file` has room for [`BYTES`].
pub(super) unsafe fn put(file: *mut sqlite3_file, open: Open) {
    // Safety: the caller's.
    unsafe {
        (*file.cast::<Handle>()).open = Box::into_raw(Box::new(open));
        (*file).pMethods = &raw const METHODS;
    }
}

/// What SQLite is told.
pub(super) fn code(result: Result<(), Failure>, io_code: c_int) -> c_int {
    match result {
        Ok(()) => ffi::SQLITE_OK,
        Err(Failure::Full) => ffi::SQLITE_FULL,
        Err(Failure::Io) => io_code,
        Err(Failure::NotFound) => ffi::SQLITE_IOERR_DELETE_NOENT,
    }
}

/// Safety: `file` comes from a successful `open` and is not closed.
unsafe fn opened<'a>(file: *mut sqlite3_file) -> &'a mut Open {
    // Safety: `open` put a `Handle` there, and its `Open` lives until `close`.
    unsafe { &mut *(*file.cast::<Handle>()).open }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // Safety: SQLite closes an open file once, and uses nothing of it afterwards.
    let open = unsafe { Box::from_raw((*file.cast::<Handle>()).open) };
    if let Some(memory) = &open.shared_memory {
        memory.locks.lock().unwrap_or_else(PoisonError::into_inner).release(open.handle, 0..SLOTS);
    }
    // Of an earlier generation: its locks went with the power.
    let _: Result<(), Failure> = open.with_file(|file| file.locks.lower(open.handle, 0));
    if let Some(path) = &open.temporary {
        let _: Result<(), Failure> = lock(&open.medium).delete(path, false);
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(file: *mut sqlite3_file, out: *mut c_void, count: c_int, offset: i64) -> c_int {
    // Safety: SQLite gives an open file and `count` bytes of room.
    let (open, out) = unsafe {
        (opened(file), std::slice::from_raw_parts_mut(out.cast::<u8>(), usize::try_from(count).unwrap_or(0)))
    };
    match open.with_file(|file| file.image.read(usize::try_from(offset).unwrap_or(usize::MAX), out)) {
        Ok(true) => ffi::SQLITE_OK,
        Ok(false) => ffi::SQLITE_IOERR_SHORT_READ,
        Err(_) => ffi::SQLITE_IOERR_READ,
    }
}

unsafe extern "C" fn write(file: *mut sqlite3_file, data: *const c_void, count: c_int, offset: i64) -> c_int {
    // Safety: SQLite gives an open file and `count` bytes.
    let (open, data) = unsafe {
        (opened(file), std::slice::from_raw_parts(data.cast::<u8>(), usize::try_from(count).unwrap_or(0)))
    };
    let offset = usize::try_from(offset).unwrap_or(0);
    code(lock(&open.medium).write(open.generation, open.file, offset, data), ffi::SQLITE_IOERR_WRITE)
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, length: i64) -> c_int {
    // Safety: SQLite gives an open file.
    let open = unsafe { opened(file) };
    let length = usize::try_from(length).unwrap_or(0);
    code(lock(&open.medium).truncate(open.generation, open.file, length), ffi::SQLITE_IOERR_TRUNCATE)
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, _: c_int) -> c_int {
    // Safety: SQLite gives an open file.
    let open = unsafe { opened(file) };
    code(lock(&open.medium).flush(open.generation, open.file), ffi::SQLITE_IOERR_FSYNC)
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, out: *mut i64) -> c_int {
    // Safety: SQLite gives an open file and room for the size.
    let (open, out) = unsafe { (opened(file), &mut *out) };
    let size = open.with_file(|file| file.image.len());
    code(size.map(|size| *out = i64::try_from(size).unwrap_or(i64::MAX)), ffi::SQLITE_IOERR_FSTAT)
}

unsafe extern "C" fn lock_file(file: *mut sqlite3_file, level: c_int) -> c_int {
    // Safety: SQLite gives an open file.
    let open = unsafe { opened(file) };
    match open.with_file(|file| file.locks.raise(open.handle, level.min(EXCLUSIVE))) {
        Ok(true) => ffi::SQLITE_OK,
        Ok(false) => ffi::SQLITE_BUSY,
        Err(_) => ffi::SQLITE_IOERR_LOCK,
    }
}

unsafe extern "C" fn unlock_file(file: *mut sqlite3_file, level: c_int) -> c_int {
    // Safety: SQLite gives an open file.
    let open = unsafe { opened(file) };
    code(open.with_file(|file| file.locks.lower(open.handle, level)), ffi::SQLITE_IOERR_UNLOCK)
}

unsafe extern "C" fn check_reserved(file: *mut sqlite3_file, out: *mut c_int) -> c_int {
    // Safety: SQLite gives an open file and room for the answer.
    let (open, out) = unsafe { (opened(file), &mut *out) };
    let reserved = open.with_file(|file| file.locks.is_reserved());
    code(reserved.map(|reserved| *out = c_int::from(reserved)), ffi::SQLITE_IOERR_CHECKRESERVEDLOCK)
}

unsafe extern "C" fn file_control(_: *mut sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_: *mut sqlite3_file) -> c_int {
    c_int::try_from(super::image::SECTOR).unwrap_or(512)
}

unsafe extern "C" fn characteristics(_: *mut sqlite3_file) -> c_int {
    // As SQLite's own layer says: a torn write leaves the bytes beside it alone.
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    index: c_int,
    bytes: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // Safety: SQLite gives an open file and room for the address.
    let (open, out) = unsafe { (opened(file), &mut *out) };
    if usize::try_from(bytes) != Ok(REGION_BYTES) {
        return ffi::SQLITE_IOERR_SHMMAP;
    }
    let memory = open.with_file(|file| {
        let memory = file.shared_memory.upgrade().unwrap_or_default();
        file.shared_memory = Arc::downgrade(&memory);
        memory
    });
    let Ok(memory) = memory else { return ffi::SQLITE_IOERR_SHMMAP };
    let memory = open.shared_memory.get_or_insert(memory);
    let region = memory.region(usize::try_from(index).unwrap_or(usize::MAX), extend != 0);
    *out = region.unwrap_or(std::ptr::null_mut()).cast();
    ffi::SQLITE_OK
}

unsafe extern "C" fn shm_lock(file: *mut sqlite3_file, offset: c_int, count: c_int, flags: c_int) -> c_int {
    // Safety: SQLite gives an open file.
    let open = unsafe { opened(file) };
    let Some(memory) = &open.shared_memory else { return ffi::SQLITE_IOERR_SHMLOCK };
    let first = usize::try_from(offset).unwrap_or(SLOTS);
    let slots = first..first + usize::try_from(count).unwrap_or(0);
    let mut locks = memory.locks.lock().unwrap_or_else(PoisonError::into_inner);
    if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
        locks.release(open.handle, slots);
        return ffi::SQLITE_OK;
    }
    let is_taken = locks.take(open.handle, slots, flags & ffi::SQLITE_SHM_EXCLUSIVE != 0);
    if is_taken { ffi::SQLITE_OK } else { ffi::SQLITE_BUSY }
}

unsafe extern "C" fn shm_barrier(_: *mut sqlite3_file) {
    fence(Ordering::SeqCst);
}

unsafe extern "C" fn shm_unmap(file: *mut sqlite3_file, delete: c_int) -> c_int {
    // Safety: SQLite gives an open file.
    let open = unsafe { opened(file) };
    if let Some(memory) = open.shared_memory.take() {
        memory.locks.lock().unwrap_or_else(PoisonError::into_inner).release(open.handle, 0..SLOTS);
    }
    if delete != 0 {
        // Of an earlier generation: it went with the power.
        let _: Result<(), Failure> = open.with_file(|file| file.shared_memory = Weak::new());
    }
    ffi::SQLITE_OK
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock_file),
    xUnlock: Some(unlock_file),
    xCheckReservedLock: Some(check_reserved),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};
