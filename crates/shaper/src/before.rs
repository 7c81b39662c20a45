//! What an interface had before it was shaped, kept in the kernel as the name of a filter.

use crate::queues::Queues;
use crate::tc::{GSO_SEGMENTS_OF_LINUX, Link};

/// The first word of our filters' names.
const NAME: &str = "gavotte";
/// Begins the name that continues the other one.
const REST: &str = "+";

/// The longest name of a filter that the kernel keeps.
const NAME_BYTES: usize = 255;

/// What an interface had before it was shaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Before {
    /// The largest number of segments of a packet.
    pub(crate) gso_max_segs: u32,
    /// Whether another program had added a `clsact`, which then stays.
    pub(crate) clsact: bool,
    /// The explicit `mq` root of another program.
    pub(crate) queues: Option<Queues>,
}

impl Default for Before {
    fn default() -> Self {
        Self {
            gso_max_segs: GSO_SEGMENTS_OF_LINUX,
            clsact: false,
            queues: None,
        }
    }
}

impl Before {
    pub(crate) fn of(link: &Link, clsact: bool, queues: Option<Queues>) -> Self {
        Self {
            gso_max_segs: link.gso_max_segs,
            clsact,
            queues,
        }
    }

    /// Whether the kernel can keep it in the names of two filters.
    pub(crate) fn fits(&self) -> bool {
        self.text().len() < 2 * NAME_BYTES
    }

    /// The names of our filters for leaving and arriving packets, from which another process can restore the interface.
    /// A long text begins in the second name and ends in the first.
    pub(crate) fn names(&self) -> [String; 2] {
        let text = self.text();
        match text.split_at_checked(NAME_BYTES).filter(|(_, rest)| !rest.is_empty()) {
            Some((head, rest)) => [format!("{REST}{rest}"), head.to_owned()],
            None => [text.clone(), text],
        }
    }

    fn text(&self) -> String {
        let mq = self.queues.as_ref().map(|queues| format!(" mq={}", queues.text()));
        format!(
            "{NAME} segments={} clsact={}{}",
            self.gso_max_segs,
            u8::from(self.clsact),
            mq.unwrap_or_default()
        )
    }

    /// Reads the names of the filters that are present; `None` without any.
    pub(crate) fn of_names([leaving, arriving]: [Option<String>; 2]) -> Option<Self> {
        match (leaving, arriving) {
            (Some(rest), Some(head)) if rest.starts_with(REST) => Some(Self::read(&(head + &rest[REST.len()..]))),
            (Some(name), _) | (None, Some(name)) => Some(Self::read(&name)),
            (None, None) => None,
        }
    }

    /// Reads a text. Anything else means Linux's defaults.
    fn read(name: &str) -> Self {
        let word = |key: &str| name.split(' ').find_map(|word| word.strip_prefix(key));
        let value = |key: &str| word(key).and_then(|value| value.parse::<u32>().ok());
        Self {
            gso_max_segs: value("segments=")
                .filter(|segments| *segments > 0)
                .unwrap_or(GSO_SEGMENTS_OF_LINUX),
            clsact: value("clsact=") == Some(1),
            queues: word("mq=").and_then(Queues::parse),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_kept_in_both_names() {
        let before = Before {
            queues: Some(Queues::of_like(16, 160)),
            ..Before::default()
        };
        let names = before.names();
        assert!(
            before.fits() && names.iter().all(|name| name.len() <= NAME_BYTES),
            "{names:?}"
        );
        assert_eq!(Before::of_names(names.clone().map(Some)), Some(before));
        // With half of it, nothing is made up.
        let [_, arriving] = names;
        assert_eq!(Before::of_names([None, Some(arriving)]), Some(Before::default()));
    }

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for clsact in [false, true] {
            let before = Before {
                gso_max_segs: 32,
                clsact,
                queues: clsact.then(|| Queues::parse("AAE").unwrap()),
            };
            assert_eq!(Before::of_names(before.names().map(Some)), Some(before.clone()));
            let [_, arriving] = before.names();
            assert_eq!(Before::of_names([None, Some(arriving)]), Some(before));
        }
        assert_eq!(Before::of_names([None, None]), None);
        assert_eq!(Before::read("gavotte"), Before::default());
        assert_eq!(Before::read("gavotte segments=x clsact=7"), Before::default());
    }
}
