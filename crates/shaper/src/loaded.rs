//! The programs and maps of one interface.

use std::io;
use std::os::fd::OwnedFd;

use crate::programs::{self, Maps, Numbering, arrived, out, phantom, rest};
use gavotte_kernel::bpf::{self, Array, Kind};

/// Largest number of pairs of one interface, both directions together.
pub const MAX_PAIRS: u32 = 8192;
/// Largest number of pairs of addresses. A host has several addresses behind a NAT.
const MAX_KEYS: u32 = 16 * MAX_PAIRS;

/// The programs and maps of an interface.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) pairs: bpf::HashMap<32, 8>,
    pub(crate) out: Array<{ out::WORDS }>,
    pub(crate) arrived: Array<{ arrived::WORDS }>,
    pub(crate) phantom: Array<{ phantom::WORDS }>,
    pub(crate) rest: Array<{ rest::WORDS }>,
    pub(crate) egress: OwnedFd,
    pub(crate) ingress: OwnedFd,
}

/// Checks whether the kernel would let this process load the classifiers, without attaching anything.
///
/// # Errors
/// The kernel's error.
pub fn try_programs() -> io::Result<()> {
    Programs::load().map(drop)
}

impl Programs {
    pub(crate) fn load() -> io::Result<Self> {
        let pairs = bpf::HashMap::sparse(MAX_KEYS, "gv_pairs")?;
        let out = Array::new(MAX_PAIRS, "gv_out")?;
        let arrived = Array::new(MAX_PAIRS, "gv_arrived")?;
        let phantom = Array::new(1, "gv_phantom")?;
        let rest = Array::new(1, "gv_rest")?;
        let maps = Maps {
            pairs: pairs.fd(),
            out: out.fd(),
            arrived: arrived.fd(),
            phantom: phantom.fd(),
            rest: rest.fd(),
        };
        let load = |numbering| bpf::load(&programs::egress(maps, numbering), Kind::Classifier, "gv_egress");
        let egress = load(Numbering::Fetched).or_else(|_| load(Numbering::Read))?;
        let ingress = bpf::load(&programs::ingress(maps), Kind::Classifier, "gv_ingress")?;
        Ok(Self {
            pairs,
            out,
            arrived,
            phantom,
            rest,
            egress,
            ingress,
        })
    }
}
