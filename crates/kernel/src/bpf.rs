//! bpf(2) and mmap(2): maps and programs as owned descriptors. This crate's unsafe code is in this module, in `packet`
//! and in `priority`. Each function makes one call and returns a plain result.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_MAP_DELETE_ELEM: libc::c_long = 3;
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_MAP_LOOKUP_BATCH: libc::c_long = 24;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_MAP_TYPE_HASH: u32 = 1;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_F_NO_PREALLOC: u32 = 1;
const BPF_F_MMAPABLE: u32 = 1 << 10;
/// Bytes of `union bpf_attr` that are filled in here; the kernel assumes zeros for the rest.
const ATTRIBUTE_BYTES: usize = 128;
/// Number of entries of a map that one call reads.
const BATCH: usize = 4096;
const SO_COOKIE: libc::c_int = 57;
const SO_NETNS_COOKIE: libc::c_int = 71;
const LOG_BYTES: usize = 256 * 1024;

/// `union bpf_attr`, as bytes.
#[repr(align(8))]
struct Attribute([u8; ATTRIBUTE_BYTES]);

impl Attribute {
    fn new() -> Self {
        Self([0; ATTRIBUTE_BYTES])
    }

    fn u32(mut self, at: usize, value: u32) -> Self {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn u64(mut self, at: usize, value: u64) -> Self {
        self.0[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn text(mut self, at: usize, value: &str) -> Self {
        let kept = value.len().min(15);
        self.0[at..at + kept].copy_from_slice(&value.as_bytes()[..kept]);
        self
    }

    /// # Safety
    /// Every address in the attribute must point to live memory of the size that the command expects.
    unsafe fn call(&mut self, command: libc::c_long) -> io::Result<i32> {
        // SAFETY: the attribute is live and of the length passed; what it points to is the caller's promise.
        let result = unsafe { libc::syscall(libc::SYS_bpf, command, self.0.as_mut_ptr(), ATTRIBUTE_BYTES) };
        if result < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(result as i32)
        }
    }
}

/// The kind of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Examines the packets of an interface.
    Classifier,
    /// Examines the packets that reach the sockets of a cgroup.
    Ingress,
    /// Examines the packets that the sockets of a cgroup send.
    Egress,
}

impl Kind {
    /// The program type, and the place where the program is attached.
    fn types(self) -> (u32, u32) {
        match self {
            Self::Classifier => (3, 0),
            Self::Ingress => (8, 0),
            Self::Egress => (8, 1),
        }
    }
}

fn owned(fd: i32) -> OwnedFd {
    // SAFETY: a new descriptor with no other owner.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn create(kind: u32, key_bytes: u32, value_bytes: u32, entries: u32, flags: u32, name: &str) -> io::Result<OwnedFd> {
    let mut attribute = Attribute::new()
        .u32(0, kind)
        .u32(4, key_bytes)
        .u32(8, value_bytes)
        .u32(12, entries)
        .u32(16, flags)
        .text(28, name);
    // SAFETY: the attribute holds no addresses.
    with_locked_memory(|| unsafe { attribute.call(BPF_MAP_CREATE) }).map(owned)
}

/// Makes a call, and makes it again without a limit on locked memory if it was not permitted. Before Linux 5.11, maps
/// and programs count as locked memory, of which 64 kB are allowed by default.
fn with_locked_memory(mut call: impl FnMut() -> io::Result<i32>) -> io::Result<i32> {
    let result = call();
    let refused = matches!(&result, Err(error) if error.raw_os_error() == Some(libc::EPERM));
    if refused && lift_limit_of_locked_memory() {
        call()
    } else {
        result
    }
}

/// Lifts this process's limit on locked memory. Returns whether there was one and it is lifted.
fn lift_limit_of_locked_memory() -> bool {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the limit lives until the call returns.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) } == 0;
    if !known || limit.rlim_cur == libc::RLIM_INFINITY {
        return false;
    }
    let none = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: as above.
    unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const none) == 0 }
}

/// A hash map with keys of `K` and values of `V` bytes.
#[derive(Debug)]
pub struct HashMap<const K: usize, const V: usize>(OwnedFd);

impl<const K: usize, const V: usize> HashMap<K, V> {
    /// Creates a map for up to `entries` entries.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new(entries: u32, name: &str) -> io::Result<Self> {
        create(BPF_MAP_TYPE_HASH, K as u32, V as u32, entries, 0, name).map(Self)
    }

    /// Creates a map that takes memory only for the entries that it has. Programs must not add entries.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn sparse(entries: u32, name: &str) -> io::Result<Self> {
        create(BPF_MAP_TYPE_HASH, K as u32, V as u32, entries, BPF_F_NO_PREALLOC, name).map(Self)
    }

    /// The map's descriptor, for programs.
    pub fn fd(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Removes an entry, if there is one.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn remove(&self, key: [u8; K]) -> io::Result<()> {
        let mut attribute = Attribute::new().u32(0, self.fd() as u32).u64(8, key.as_ptr() as u64);
        // SAFETY: the key lives until the call returns and has the map's length.
        match unsafe { attribute.call(BPF_MAP_DELETE_ELEM) } {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
            _ => Ok(()),
        }
    }

    /// Sets an entry.
    ///
    /// # Errors
    /// The kernel's error, for example if the map is full.
    pub fn set(&self, key: [u8; K], value: [u8; V]) -> io::Result<()> {
        let mut attribute = Attribute::new()
            .u32(0, self.fd() as u32)
            .u64(8, key.as_ptr() as u64)
            .u64(16, value.as_ptr() as u64);
        // SAFETY: key and value live until the call returns and have the map's lengths.
        unsafe { attribute.call(BPF_MAP_UPDATE_ELEM) }.map(|_| ())
    }

    /// Returns all entries. Entries may change while they are read.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn all(&self) -> io::Result<Vec<([u8; K], [u8; V])>> {
        let (mut keys, mut values) = (vec![[0; K]; BATCH], vec![[0; V]; BATCH]);
        let mut from = None;
        let mut entries = Vec::new();
        loop {
            let mut next = 0_u64;
            let mut attribute = Attribute::new()
                .u64(0, from.as_ref().map_or(0, |at: &u64| ptr::from_ref(at) as u64))
                .u64(8, ptr::from_mut(&mut next) as u64)
                .u64(16, keys.as_mut_ptr() as u64)
                .u64(24, values.as_mut_ptr() as u64)
                .u32(32, BATCH as u32)
                .u32(36, self.fd() as u32);
            // SAFETY: the places between batches and the room for `BATCH` keys and values of the map's lengths live until
            // the call returns.
            let ended = match unsafe { attribute.call(BPF_MAP_LOOKUP_BATCH) } {
                Ok(_) => false,
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => true,
                Err(error) => return Err(error),
            };
            let count = u32::from_ne_bytes([32, 33, 34, 35].map(|at| attribute.0[at])) as usize;
            entries.extend(keys.iter().copied().zip(values.iter().copied()).take(count.min(BATCH)));
            if ended {
                return Ok(entries);
            }
            from = Some(next);
        }
    }
}

/// An array of entries of `WORDS` 64-bit words, shared with the kernel. It is read and written without system calls.
#[derive(Debug)]
pub struct Array<const WORDS: usize> {
    fd: OwnedFd,
    words: NonNull<AtomicU64>,
    entries: u32,
}

// SAFETY: the words are atomics in memory that lives as long as the array.
unsafe impl<const WORDS: usize> Send for Array<WORDS> {}
// SAFETY: as above.
unsafe impl<const WORDS: usize> Sync for Array<WORDS> {}

impl<const WORDS: usize> Array<WORDS> {
    /// Creates an array of `entries` entries, all zeros.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new(entries: u32, name: &str) -> io::Result<Self> {
        let fd = create(BPF_MAP_TYPE_ARRAY, 4, 8 * WORDS as u32, entries, BPF_F_MMAPABLE, name)?;
        // SAFETY: a fresh mapping of a descriptor that allows it; the kernel rounds the length up to pages, as the map is.
        let place = unsafe {
            libc::mmap(
                ptr::null_mut(),
                Self::bytes(entries),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if place == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let words = NonNull::new(place.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self { fd, words, entries })
    }

    fn bytes(entries: u32) -> usize {
        8 * WORDS * entries as usize
    }

    /// The array's descriptor, for programs.
    pub fn fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    fn word(&self, entry: u32, word: usize) -> &AtomicU64 {
        assert!(entry < self.entries && word < WORDS);
        // SAFETY: within the mapping, which is aligned to pages and lives as long as `self`.
        unsafe { self.words.add(WORDS * entry as usize + word).as_ref() }
    }

    /// Returns an entry.
    pub fn get(&self, entry: u32) -> [u64; WORDS] {
        std::array::from_fn(|word| self.word(entry, word).load(Ordering::Relaxed))
    }

    /// Sets an entry.
    pub fn set(&self, entry: u32, value: [u64; WORDS]) {
        for (word, value) in value.into_iter().enumerate() {
            self.word(entry, word).store(value, Ordering::Relaxed);
        }
    }

    /// Sets one word of an entry.
    pub fn set_word(&self, entry: u32, word: usize, value: u64) {
        self.word(entry, word).store(value, Ordering::Relaxed);
    }
}

impl<const WORDS: usize> Drop for Array<WORDS> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length and nothing borrows from it any more.
        unsafe { libc::munmap(self.words.as_ptr().cast(), Self::bytes(self.entries)) };
    }
}

/// Loads a program.
///
/// # Errors
/// The kernel's error, with the last lines of its verifier's log.
pub fn load(code: &[[u8; 8]], kind: Kind, name: &str) -> io::Result<OwnedFd> {
    let licence = b"GPL\0";
    let base = || {
        Attribute::new()
            .u32(0, kind.types().0)
            .u32(4, code.len() as u32)
            .u64(8, code.as_ptr() as u64)
            .u64(16, licence.as_ptr() as u64)
            .text(48, name)
            .u32(68, kind.types().1)
    };
    // SAFETY: code and licence live until the call returns, in the lengths given or ended by a zero.
    match with_locked_memory(|| unsafe { base().call(BPF_PROG_LOAD) }) {
        Ok(fd) => Ok(owned(fd)),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EINVAL)) => {
            let mut log = vec![0; LOG_BYTES];
            let mut again = base()
                .u32(24, 1)
                .u32(28, LOG_BYTES as u32)
                .u64(32, log.as_mut_ptr() as u64);
            // SAFETY: as above; the log lives until the call returns and has the given length.
            if let Ok(fd) = unsafe { again.call(BPF_PROG_LOAD) } {
                return Ok(owned(fd));
            }
            let log_text = String::from_utf8_lossy(&log)
                .trim_end_matches('\0')
                .trim_end()
                .to_owned();
            let from = log_text.len().saturating_sub(1500);
            let tail = log_text.get(from..).unwrap_or_default();
            Err(io::Error::new(error.kind(), format!("{error}: {tail}")))
        }
        Err(error) => Err(error),
    }
}

/// Attaches a program to a cgroup in addition to others, until the returned link is closed.
///
/// # Errors
/// The kernel's error.
pub fn attach(program: &OwnedFd, kind: Kind, cgroup: &impl AsRawFd) -> io::Result<OwnedFd> {
    let mut attribute = Attribute::new()
        .u32(0, program.as_raw_fd() as u32)
        .u32(4, cgroup.as_raw_fd() as u32)
        .u32(8, kind.types().1);
    // SAFETY: the attribute holds no addresses.
    unsafe { attribute.call(BPF_LINK_CREATE) }.map(owned)
}

/// The kernel's number for the network namespace of a socket.
///
/// # Errors
/// The kernel's error; kernels before Linux 5.14 have no such number.
pub fn namespace_cookie(socket: &impl AsRawFd) -> io::Result<u64> {
    number(socket, SO_NETNS_COOKIE)
}

/// The kernel's number for a socket. No other socket has it until the next boot, and no program can choose it.
///
/// # Errors
/// The kernel's error.
pub fn socket_cookie(socket: &impl AsRawFd) -> io::Result<u64> {
    number(socket, SO_COOKIE)
}

fn number(socket: &impl AsRawFd, option: libc::c_int) -> io::Result<u64> {
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the buffer has the given eight bytes, and lives until the call returns.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            ptr::from_mut(&mut cookie).cast(),
            &raw mut length,
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(cookie)
    }
}

/// An instruction of the older language of socket filters: its code, two distances to jump, and a value.
pub type FilterStep = (u16, u8, u8, u32);

/// Makes the kernel drop what a filter rejects before it reaches a socket's buffer.
///
/// # Errors
/// The kernel's error.
pub fn filter(socket: &impl AsRawFd, steps: &[FilterStep]) -> io::Result<()> {
    let mut code: Vec<libc::sock_filter> = steps
        .iter()
        .map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k })
        .collect();
    let program = libc::sock_fprog {
        len: code.len() as u16,
        filter: code.as_mut_ptr(),
    };
    // SAFETY: the program and its instructions live until the call returns; the kernel copies them.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_is_not_permitted_is_made_again_without_a_limit_of_memory() {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        let read = |limit: &mut libc::rlimit| {
            // SAFETY: the limit lives until the call returns.
            assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, limit) }, 0);
        };
        read(&mut limit);
        limit.rlim_cur = limit.rlim_max.min(64 << 10);
        // SAFETY: as above.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) }, 0);
        let mut calls = 0;
        let result = with_locked_memory(|| {
            calls += 1;
            Err(io::Error::from_raw_os_error(libc::EPERM))
        });
        assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EPERM));
        let may_lift = limit.rlim_max == libc::RLIM_INFINITY;
        read(&mut limit);
        let lifted = limit.rlim_cur == libc::RLIM_INFINITY;
        assert_eq!(calls, if lifted { 2 } else { 1 });
        assert!(lifted || !may_lift);
    }
}
