//! bpf(2) and mmap(2): maps and programs as owned descriptors. The only unsafe code of this crate; each function makes
//! one call and gives back a plain result.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_MAP_TYPE_HASH: u32 = 1;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_F_MMAPABLE: u32 = 1 << 10;
/// Bytes of `union bpf_attr` that are filled in here; the kernel takes the rest as zeros.
const ATTRIBUTE_BYTES: usize = 128;
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
    /// Every address in the attribute must be of live memory, as long as the command takes it to be.
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

fn owned(fd: i32) -> OwnedFd {
    // SAFETY: a fresh descriptor that the kernel gave to nobody else.
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
    unsafe { attribute.call(BPF_MAP_CREATE) }.map(owned)
}

/// A hash map with keys of `K` and values of `V` bytes.
#[derive(Debug)]
pub(crate) struct HashMap<const K: usize, const V: usize>(OwnedFd);

impl<const K: usize, const V: usize> HashMap<K, V> {
    pub(crate) fn new(entries: u32, name: &str) -> io::Result<Self> {
        create(BPF_MAP_TYPE_HASH, K as u32, V as u32, entries, 0, name).map(Self)
    }

    pub(crate) fn fd(&self) -> i32 {
        self.0.as_raw_fd()
    }

    pub(crate) fn set(&self, key: [u8; K], value: [u8; V]) -> io::Result<()> {
        let mut attribute = Attribute::new()
            .u32(0, self.fd() as u32)
            .u64(8, key.as_ptr() as u64)
            .u64(16, value.as_ptr() as u64);
        // SAFETY: key and value live until the call returns and have the map's lengths.
        unsafe { attribute.call(BPF_MAP_UPDATE_ELEM) }.map(|_| ())
    }
}

/// An array of entries of `WORDS` 64-bit words, shared with the kernel: read and written without system calls.
#[derive(Debug)]
pub(crate) struct Array<const WORDS: usize> {
    fd: OwnedFd,
    words: NonNull<AtomicU64>,
    entries: u32,
}

// SAFETY: the words are atomics in memory that lives as long as the array.
unsafe impl<const WORDS: usize> Send for Array<WORDS> {}
// SAFETY: as above.
unsafe impl<const WORDS: usize> Sync for Array<WORDS> {}

impl<const WORDS: usize> Array<WORDS> {
    pub(crate) fn new(entries: u32, name: &str) -> io::Result<Self> {
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

    pub(crate) fn fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    fn word(&self, entry: u32, word: usize) -> &AtomicU64 {
        assert!(entry < self.entries && word < WORDS);
        // SAFETY: within the mapping, which is aligned to pages and lives as long as `self`.
        unsafe { self.words.add(WORDS * entry as usize + word).as_ref() }
    }

    pub(crate) fn get(&self, entry: u32) -> [u64; WORDS] {
        std::array::from_fn(|word| self.word(entry, word).load(Ordering::Relaxed))
    }

    pub(crate) fn set(&self, entry: u32, value: [u64; WORDS]) {
        for (word, value) in value.into_iter().enumerate() {
            self.word(entry, word).store(value, Ordering::Relaxed);
        }
    }

    pub(crate) fn set_word(&self, entry: u32, word: usize, value: u64) {
        self.word(entry, word).store(value, Ordering::Relaxed);
    }
}

impl<const WORDS: usize> Drop for Array<WORDS> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length and nothing borrows from it any more.
        unsafe { libc::munmap(self.words.as_ptr().cast(), Self::bytes(self.entries)) };
    }
}

/// Loads a classifier.
///
/// # Errors
/// What the kernel says, with the last lines of its verifier's log.
pub(crate) fn load(code: &[[u8; 8]], name: &str) -> io::Result<OwnedFd> {
    let licence = b"GPL\0";
    let base = || {
        Attribute::new()
            .u32(0, BPF_PROG_TYPE_SCHED_CLS)
            .u32(4, code.len() as u32)
            .u64(8, code.as_ptr() as u64)
            .u64(16, licence.as_ptr() as u64)
            .text(48, name)
    };
    // SAFETY: code and licence live until the call returns, in the lengths given or ended by a zero.
    match unsafe { base().call(BPF_PROG_LOAD) } {
        Ok(fd) => Ok(owned(fd)),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EINVAL)) => {
            let mut log = vec![0; LOG_BYTES];
            let mut again = base()
                .u32(24, 1)
                .u32(28, LOG_BYTES as u32)
                .u64(32, log.as_mut_ptr() as u64);
            // SAFETY: as above; the log lives until the call returns and is as long as told.
            if let Ok(fd) = unsafe { again.call(BPF_PROG_LOAD) } {
                return Ok(owned(fd));
            }
            let said = String::from_utf8_lossy(&log)
                .trim_end_matches('\0')
                .trim_end()
                .to_owned();
            let from = said.len().saturating_sub(1500);
            let tail = said.get(from..).unwrap_or_default();
            Err(io::Error::new(error.kind(), format!("{error}: {tail}")))
        }
        Err(error) => Err(error),
    }
}
