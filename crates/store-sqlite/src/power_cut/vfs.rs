//! SQLite's file layer over [`Medium`]: one layer for the whole process, whose paths begin with the number of a disk.
//! What is done with an open file is in `handle.rs`.
#![allow(unsafe_code, reason = "SQLite's file layer is a table of C functions")]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_vfs};

use super::handle::{self, Open, code};
use super::lock;
use super::medium::Medium;

/// Its name, to be given when a database is opened.
pub(super) const NAME: &str = "millpond-power-cut";
const C_NAME: &CStr = c"millpond-power-cut";

const PATH_BYTES_MAX: c_int = 512;

static DISKS: Mutex<BTreeMap<u64, Weak<Mutex<Medium>>>> = Mutex::new(BTreeMap::new());

/// Makes a disk known under its number until it is dropped.
pub(super) fn register(number: u64, medium: &Arc<Mutex<Medium>>) -> Result<(), c_int> {
    static LAYER: OnceLock<c_int> = OnceLock::new();
    let code = *LAYER.get_or_init(|| {
        let layer = Box::leak(Box::new(layer()));
        // Safety: the table lives for ever.
        unsafe { ffi::sqlite3_vfs_register(layer, 0) }
    });
    if code != ffi::SQLITE_OK {
        return Err(code);
    }
    let mut disks = DISKS.lock().unwrap_or_else(PoisonError::into_inner);
    disks.retain(|_, disk| disk.strong_count() > 0);
    disks.insert(number, Arc::downgrade(medium));
    Ok(())
}

/// The disk of a path, if it is still there, and the path. Safety: `path` is a C string or null.
unsafe fn disk_of(path: *const c_char) -> Option<(Arc<Mutex<Medium>>, String)> {
    if path.is_null() {
        return None;
    }
    // Safety: the caller's.
    let path = unsafe { CStr::from_ptr(path) }.to_str().ok()?;
    let number = path.strip_prefix('/')?.split('/').next()?.parse().ok()?;
    let disks = DISKS.lock().unwrap_or_else(PoisonError::into_inner);
    Some((disks.get(&number)?.upgrade()?, path.to_owned()))
}

unsafe extern "C" fn open(
    _: *mut sqlite3_vfs,
    path: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // Safety: SQLite gives room for a `Handle`, and a C string.
    unsafe {
        (*file).pMethods = std::ptr::null();
        let Some((medium, path)) = disk_of(path) else { return ffi::SQLITE_CANTOPEN };
        let found = {
            let mut medium = lock(&medium);
            let file = medium.open(&path, flags & ffi::SQLITE_OPEN_CREATE != 0);
            file.map(|file| (file, medium.generation))
        };
        let Ok((number, generation)) = found else { return ffi::SQLITE_CANTOPEN };
        let temporary = (flags & ffi::SQLITE_OPEN_DELETEONCLOSE != 0).then_some(path);
        handle::put(file, Open::new(medium, generation, number, temporary));
        if !out_flags.is_null() {
            *out_flags = flags;
        }
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn delete(_: *mut sqlite3_vfs, path: *const c_char, sync_directory: c_int) -> c_int {
    // Safety: SQLite gives a C string.
    let Some((medium, path)) = (unsafe { disk_of(path) }) else { return ffi::SQLITE_IOERR_DELETE };
    code(lock(&medium).delete(&path, sync_directory != 0), ffi::SQLITE_IOERR_DELETE)
}

unsafe extern "C" fn access(_: *mut sqlite3_vfs, path: *const c_char, _: c_int, out: *mut c_int) -> c_int {
    // Safety: SQLite gives a C string and room for the answer.
    let (found, out) = unsafe { (disk_of(path), &mut *out) };
    *out = c_int::from(found.is_some_and(|(medium, path)| lock(&medium).exists(&path)));
    ffi::SQLITE_OK
}

unsafe extern "C" fn full_path(
    _: *mut sqlite3_vfs,
    path: *const c_char,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    // Safety: SQLite gives a C string and `room` bytes.
    unsafe {
        let path = CStr::from_ptr(path).to_bytes_with_nul();
        if path.len() > usize::try_from(room).unwrap_or(0) {
            return ffi::SQLITE_CANTOPEN;
        }
        std::ptr::copy_nonoverlapping(path.as_ptr().cast(), out, path.len());
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn randomness(_: *mut sqlite3_vfs, count: c_int, out: *mut c_char) -> c_int {
    let bytes = usize::try_from(count).unwrap_or(0);
    // Safety: SQLite gives `count` bytes of room.
    let out = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), bytes) };
    for (byte, at) in out.iter_mut().zip(0u8..) {
        *byte = at.wrapping_mul(97);
    }
    count
}

unsafe extern "C" fn sleep(_: *mut sqlite3_vfs, micros: c_int) -> c_int {
    std::thread::yield_now();
    micros
}

unsafe extern "C" fn current_time(_: *mut sqlite3_vfs, out: *mut i64) -> c_int {
    // Safety: SQLite gives room for the time. In Julian milliseconds; nothing looks at it.
    unsafe { *out = 212_000_000_000_000 };
    ffi::SQLITE_OK
}

fn layer() -> sqlite3_vfs {
    sqlite3_vfs {
        iVersion: 2,
        szOsFile: c_int::try_from(handle::BYTES).unwrap_or(c_int::MAX),
        mxPathname: PATH_BYTES_MAX,
        pNext: std::ptr::null_mut(),
        zName: C_NAME.as_ptr(),
        pAppData: std::ptr::null_mut(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_path),
        xDlOpen: None,
        xDlError: None,
        xDlSym: None,
        xDlClose: None,
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: None,
        xGetLastError: None,
        xCurrentTimeInt64: Some(current_time),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }
}
