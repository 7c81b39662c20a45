//! What an interface had before it was shaped, kept in the kernel as the name of a filter.

use crate::tc::{GSO_SEGMENTS_OF_LINUX, Link};

/// The first word of our filters' names.
const NAME: &str = "gavotte";

/// What an interface had before it was shaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Before {
    /// The largest number of segments of a packet.
    pub(crate) gso_max_segs: u32,
    /// Whether another program had added a `clsact`, which then stays.
    pub(crate) clsact: bool,
}

impl Default for Before {
    fn default() -> Self {
        Self {
            gso_max_segs: GSO_SEGMENTS_OF_LINUX,
            clsact: false,
        }
    }
}

impl Before {
    pub(crate) fn of(link: &Link, clsact: bool) -> Self {
        Self {
            gso_max_segs: link.gso_max_segs,
            clsact,
        }
    }

    /// The name of our filters, from which another process can restore the interface.
    pub(crate) fn name(self) -> String {
        format!("{NAME} segments={} clsact={}", self.gso_max_segs, u8::from(self.clsact))
    }

    /// Reads a filter's name. Anything else means Linux's defaults.
    pub(crate) fn read(name: &str) -> Self {
        let value = |key: &str| {
            let word = name.split(' ').find_map(|word| word.strip_prefix(key));
            word.and_then(|value| value.parse::<u32>().ok())
        };
        Self {
            gso_max_segs: value("segments=")
                .filter(|segments| *segments > 0)
                .unwrap_or(GSO_SEGMENTS_OF_LINUX),
            clsact: value("clsact=") == Some(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for clsact in [false, true] {
            let before = Before {
                gso_max_segs: 32,
                clsact,
            };
            assert_eq!(Before::read(&before.name()), before);
        }
        assert_eq!(Before::read("gavotte"), Before::default());
        assert_eq!(Before::read("gavotte segments=x clsact=7"), Before::default());
    }
}
