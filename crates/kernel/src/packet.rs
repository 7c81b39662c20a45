//! Packet sockets: whole frames of every interface of a network namespace, received through a ring of shared memory.
//!
//! Frames keep the kernel's offload header (`struct virtio_net_hdr`). Packets whose checksum or segmentation is still
//! to be done thus pass unchanged.
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Bytes of the offload header before each frame.
pub const OFFLOAD_BYTES: usize = 10;
/// Largest number of frames that one call sends.
pub const SEND_BATCH: usize = 64;

const BLOCK_BYTES: usize = 256 * 1024;
const TPACKET_V2: libc::c_int = 1;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const TP_STATUS_KERNEL: u32 = 0;
const TP_STATUS_USER: u32 = 1;
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;

/// A frame with its offload header, and the interface on which it arrived or will leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Number of the interface in the socket's network namespace.
    pub interface: u32,
    /// The offload header, then the frame from its Ethernet header on.
    pub bytes: Box<[u8]>,
}

/// A frame in the ring.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Number of the interface on which it arrived.
    pub interface: u32,
    /// When the kernel received it, since the Unix epoch.
    pub received: Duration,
    /// The offload header, then the frame from its Ethernet header on.
    pub bytes: &'a [u8],
    /// Whether `bytes` is the whole frame. A frame may be larger than a slot, or have a VLAN tag that the kernel stores
    /// separately.
    pub whole: bool,
}

/// A raw packet socket that receives the frames of all interfaces of its network namespace.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    ring: NonNull<u8>,
    ring_bytes: usize,
    slot_bytes: usize,
    slots: usize,
    at: usize,
    /// Whether the slot at `at` is in use and must be returned to the kernel.
    taken: bool,
}

// SAFETY: the mapping belongs to the value alone, and no thread but its owner's uses it.
unsafe impl Send for PacketSocket {}

impl PacketSocket {
    /// Opens a socket in this thread's network namespace.
    ///
    /// `slot_bytes` is the memory of one frame, including the kernel's headers (about 100 bytes). It must be a multiple
    /// of 16 and at most 256 KiB. The number of slots is rounded up.
    ///
    /// # Errors
    /// The kernel's error: `EPERM` without `CAP_NET_RAW` in the namespace's user namespace.
    pub fn open(slot_bytes: usize, slots: usize) -> io::Result<Self> {
        let per_block = BLOCK_BYTES / slot_bytes;
        let blocks = slots.div_ceil(per_block);
        // Protocol 0 receives nothing until the ring is ready.
        // SAFETY: plain numbers; the new descriptor is owned at once.
        let fd = unsafe {
            let fd = libc::socket(
                libc::AF_PACKET,
                libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
                0,
            );
            checked(fd)?;
            OwnedFd::from_raw_fd(fd)
        };
        set_option(&fd, libc::PACKET_VERSION, &[TPACKET_V2])?;
        set_option(&fd, libc::PACKET_VNET_HDR, &[1])?;
        // Kernels before 4.20 lack this option. Packet sockets then see their own frames only as outgoing.
        let _ = set_option(&fd, PACKET_IGNORE_OUTGOING, &[1]);
        let request = [BLOCK_BYTES, blocks, slot_bytes, blocks * per_block].map(|number| number as libc::c_int);
        set_option(&fd, libc::PACKET_RX_RING, &request)?;
        let ring_bytes = blocks * BLOCK_BYTES;
        // SAFETY: a fresh mapping of a live descriptor at an address of the kernel's choice.
        let ring = unsafe {
            libc::mmap(
                ptr::null_mut(),
                ring_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if ring == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let ring = NonNull::new(ring.cast()).ok_or_else(|| io::Error::other("the ring lies at address 0"))?;
        let socket = Self {
            fd,
            ring,
            ring_bytes,
            slot_bytes,
            slots: blocks * per_block,
            at: 0,
            taken: false,
        };
        let name = address(0, (libc::ETH_P_ALL as u16).to_be());
        // SAFETY: a live address of the length passed.
        let bound = unsafe {
            libc::bind(
                socket.fd.as_raw_fd(),
                (&raw const name).cast(),
                mem::size_of_val(&name) as libc::socklen_t,
            )
        };
        checked(bound)?;
        Ok(socket)
    }

    /// Returns the next frame, or `None` if there is none yet. The previous frame's slot returns to the kernel.
    pub fn receive(&mut self) -> Option<Received<'_>> {
        if self.taken {
            self.status(self.at).store(TP_STATUS_KERNEL, Ordering::Release);
            self.at = (self.at + 1) % self.slots;
            self.taken = false;
        }
        let status = self.status(self.at).load(Ordering::Acquire);
        if status & TP_STATUS_USER == 0 {
            return None;
        }
        self.taken = true;
        let slot = self.slot(self.at);
        // SAFETY: the status says that the slot is ours, and it is a whole slot of the live mapping. The kernel writes it
        // again only after `receive` has given it back, which needs `self` mutably: not while the slice lives.
        let slot = unsafe { slice::from_raw_parts(slot.as_ptr(), self.slot_bytes) };
        // struct tpacket2_hdr, then struct sockaddr_ll at its next multiple of 16.
        let length = u32_at(slot, 4) as usize;
        let kept = u32_at(slot, 8) as usize;
        let frame = u16_at(slot, 12) as usize;
        let bytes = slot
            .get(frame.saturating_sub(OFFLOAD_BYTES)..frame + kept)
            .unwrap_or_default();
        let received = Duration::new(u32_at(slot, 16).into(), u32_at(slot, 20).min(999_999_999));
        Some(Received {
            interface: u32_at(slot, 32 + 4),
            received,
            bytes,
            whole: kept == length && status & TP_STATUS_VLAN_VALID == 0 && bytes.len() > OFFLOAD_BYTES,
        })
    }

    /// Sends frames, at most `SEND_BATCH` of them. Returns the number that the kernel accepted.
    ///
    /// # Errors
    /// The kernel's reason for refusing the first frame.
    pub fn send(&self, packets: &[Packet]) -> io::Result<usize> {
        let count = packets.len().min(SEND_BATCH);
        let mut names = [address(0, 0); SEND_BATCH];
        // SAFETY: both are plain C structures, for which zeros are valid.
        let (mut vectors, mut messages): ([libc::iovec; SEND_BATCH], [libc::mmsghdr; SEND_BATCH]) =
            unsafe { (mem::zeroed(), mem::zeroed()) };
        for (place, packet) in packets[..count].iter().enumerate() {
            names[place].sll_ifindex = packet.interface as libc::c_int;
            vectors[place].iov_base = packet.bytes.as_ptr().cast_mut().cast();
            vectors[place].iov_len = packet.bytes.len();
            let header = &mut messages[place].msg_hdr;
            header.msg_name = (&raw mut names[place]).cast();
            header.msg_namelen = mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            header.msg_iov = &raw mut vectors[place];
            header.msg_iovlen = 1;
        }
        // SAFETY: `count` messages, whose names, vectors and bytes outlive the call; the kernel only reads the bytes.
        let sent = unsafe { libc::sendmmsg(self.fd.as_raw_fd(), messages.as_mut_ptr(), count as libc::c_uint, 0) };
        checked(sent)
    }

    /// Waits until a frame arrives or `most` has passed; without `most`, waits for any time.
    ///
    /// # Errors
    /// The kernel's error; a signal is not an error.
    pub fn wait(&self, most: Option<Duration>) -> io::Result<()> {
        let most = most.map(|most| libc::timespec {
            tv_sec: most.as_secs() as libc::time_t,
            tv_nsec: most.subsec_nanos().into(),
        });
        let timeout = most.as_ref().map_or(ptr::null(), ptr::from_ref);
        let mut entry = libc::pollfd {
            fd: self.fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one live pollfd, a live timespec or none, no signal mask.
        match checked(unsafe { libc::ppoll(&raw mut entry, 1, timeout, ptr::null()) }) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the number of frames that found no free slot since the last call.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn missed(&self) -> io::Result<u32> {
        let mut counts = [0_u32; 2];
        let mut length = mem::size_of_val(&counts) as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes, the size of the live array.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                counts.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        checked(result).map(|_| counts[1])
    }

    fn slot(&self, number: usize) -> NonNull<u8> {
        let per_block = BLOCK_BYTES / self.slot_bytes;
        let offset = number / per_block * BLOCK_BYTES + number % per_block * self.slot_bytes;
        // SAFETY: `number` is below `slots`, so that the slot lies within the mapping.
        unsafe { self.ring.add(offset) }
    }

    fn status(&self, number: usize) -> &AtomicU32 {
        // SAFETY: a slot begins with its status, is aligned to 16 bytes and lives as long as the mapping.
        unsafe { AtomicU32::from_ptr(self.slot(number).as_ptr().cast()) }
    }
}

impl Drop for PacketSocket {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours alone, and no slice of it outlives `self`.
        unsafe { libc::munmap(self.ring.as_ptr().cast(), self.ring_bytes) };
    }
}

fn address(interface: libc::c_int, protocol: u16) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: protocol,
        sll_ifindex: interface,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

fn set_option(fd: &OwnedFd, name: libc::c_int, value: &[libc::c_int]) -> io::Result<()> {
    // SAFETY: `value` is a live slice of the length passed; the kernel only reads it.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            name,
            value.as_ptr().cast(),
            mem::size_of_val(value) as libc::socklen_t,
        )
    };
    checked(result).map(|_| ())
}

fn checked(result: libc::c_int) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}
