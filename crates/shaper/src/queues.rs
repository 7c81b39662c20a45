//! The queues of an `mq` root that another program made: read before they are replaced, and made again afterwards.
//!
//! A guarantee needs one HTB that sees all packets of a pair, so it replaces `mq` and the qdiscs of its queues. Those
//! that Linux chose itself come back with the root. Those of other programs do not, so their kinds and options are kept
//! in the kernel, in the names of filters.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use gavotte_kernel::netlink::Message;

use crate::tc::{self, Qdisc};

/// Qdiscs of a queue that have neither classes nor anything else than their options.
const SIMPLE: [&str; 9] = [
    "pfifo",
    "bfifo",
    "pfifo_fast",
    "fq",
    "fq_codel",
    "codel",
    "pie",
    "fq_pie",
    "sfq",
];

/// The qdisc of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Child {
    /// The queue's number, from 1 on.
    queue: u16,
    /// The upper half of its handle.
    major: u16,
    kind: String,
    options: Vec<u8>,
}

/// An explicit `mq` root, and the qdiscs of its queues that Linux did not choose itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queues {
    /// The upper half of its handle.
    major: u16,
    children: Vec<Child>,
}

impl Queues {
    /// Reads an explicit `mq` root from all qdiscs of an interface.
    ///
    /// # Errors
    /// The kind of a qdisc that could not be made again.
    pub(crate) fn read(root: &Qdisc, of_link: &[Qdisc]) -> Result<Self, String> {
        let major = root.major();
        let mut children = Vec::new();
        for qdisc in of_link.iter().filter(|qdisc| qdisc.handle != 0 && !qdisc.is_root()) {
            if qdisc.is_clsact() || qdisc.is_ingress() {
                continue;
            }
            if qdisc.parent >> 16 != u32::from(major) || !SIMPLE.contains(&qdisc.kind.as_str()) {
                return Err(qdisc.kind.clone());
            }
            children.push(Child {
                queue: qdisc.parent as u16,
                major: qdisc.major(),
                kind: qdisc.kind.clone(),
                options: qdisc.options.clone(),
            });
        }
        children.sort_by_key(|child| child.queue);
        Ok(Self { major, children })
    }

    /// The text from which [`Self::parse`] reads the same.
    pub(crate) fn text(&self) -> String {
        let mut bytes = self.major.to_be_bytes().to_vec();
        let mut before: Option<&Child> = None;
        for child in &self.children {
            // Most queues have the same qdisc as the one before, with the next handle.
            let same = before.is_some_and(|one| (&one.kind, &one.options) == (&child.kind, &child.options));
            let next = before.is_some_and(|one| {
                same && (one.queue.wrapping_add(1), one.major.wrapping_add(1)) == (child.queue, child.major)
            });
            bytes.push(u8::from(next) | u8::from(same) << 1);
            if !next {
                bytes.extend_from_slice(&child.queue.to_be_bytes());
                bytes.extend_from_slice(&child.major.to_be_bytes());
            }
            if !same {
                bytes.push(child.kind.len() as u8);
                bytes.extend_from_slice(child.kind.as_bytes());
                bytes.extend_from_slice(&(child.options.len() as u16).to_be_bytes());
                bytes.extend_from_slice(&child.options);
            }
            before = Some(child);
        }
        BASE64.encode(bytes)
    }

    /// Reads a text of [`Self::text`]; `None` if it is something else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let bytes = BASE64.decode(text).ok()?;
        let mut rest = bytes.as_slice();
        let mut take = |count: usize| -> Option<&[u8]> {
            let (head, tail) = rest.split_at_checked(count)?;
            rest = tail;
            Some(head)
        };
        let number = |bytes: &[u8]| Some(u16::from_be_bytes(bytes.try_into().ok()?));
        let major = number(take(2)?)?;
        let mut children: Vec<Child> = Vec::new();
        while let Some(flags) = take(1) {
            let before = children.last().cloned();
            let (next, same) = (flags[0] & 1 != 0, flags[0] & 2 != 0);
            let (queue, own_major) = if next {
                let before = before.as_ref()?;
                (before.queue.wrapping_add(1), before.major.wrapping_add(1))
            } else {
                (number(take(2)?)?, number(take(2)?)?)
            };
            let (kind, options) = if same {
                before.map(|one| (one.kind, one.options))?
            } else {
                let length = usize::from(take(1)?[0]);
                let kind = std::str::from_utf8(take(length)?).ok()?.to_owned();
                let length = usize::from(number(take(2)?)?);
                (kind, take(length)?.to_vec())
            };
            children.push(Child {
                queue,
                major: own_major,
                kind,
                options,
            });
        }
        Some(Self { major, children })
    }

    /// Queues with the same qdisc each.
    #[cfg(test)]
    pub(crate) fn of_like(count: u16, option_bytes: usize) -> Self {
        let child = |queue| Child {
            queue,
            major: 0x8000 + queue,
            kind: "fq".into(),
            options: vec![7; option_bytes],
        };
        Self {
            major: 1,
            children: (1..=count).map(child).collect(),
        }
    }

    /// The messages that make it again on an interface.
    pub(crate) fn messages(&self, device: u32) -> Vec<Message> {
        let mut messages = vec![tc::mq_root(device, self.major)];
        for child in &self.children {
            let parent = u32::from(self.major) << 16 | u32::from(child.queue);
            messages.push(tc::qdisc(device, parent, child.major, &child.kind, &child.options));
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn many_like_queues_take_little_room() {
        // What Linux 6.18 lists of `fq` are 160 bytes.
        let text = Queues::of_like(16, 160).text();
        assert!(text.len() <= 400, "{}", text.len());
        assert_eq!(Queues::parse(&text), Some(Queues::of_like(16, 160)));
        assert_eq!(Queues::parse(""), None);
    }

    proptest! {
        #[test]
        fn a_text_is_read_as_it_is_written(
            major in any::<u16>(),
            children in proptest::collection::vec((any::<u16>(), any::<u16>(), 0..SIMPLE.len(), 0..4_u8), 0..9),
        ) {
            let children = children.into_iter().map(|(queue, major, kind, options)| Child {
                queue,
                major,
                kind: SIMPLE[kind].into(),
                options: vec![options; usize::from(options)],
            });
            let queues = Queues { major, children: children.collect() };
            prop_assert_eq!(Queues::parse(&queues.text()), Some(queues));
        }

        #[test]
        fn any_text_is_safe(text in "[A-Za-z0-9+/]{0,40}") {
            let _ = Queues::parse(&text);
        }
    }
}
