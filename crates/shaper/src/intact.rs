//! Notices when another program changes a shaped interface, and builds again what is missing.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use crate::claim::find;
use crate::device::Shaper;
use crate::error::ShaperError;
use crate::peer::PairClass;
use crate::sizes::GSO_SEGMENTS;
use crate::tc::{self, NEWCOMERS, REST, VM, Way};

/// A part of a shaped interface that another program may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// The interface has another number, or is another one.
    Interface,
    Root,
    Classes,
    Filters,
    Segments,
}

/// What differs from what was built, with one line for each part.
#[derive(Debug, Default)]
struct Faults(BTreeMap<Part, String>);

impl Faults {
    fn note(&mut self, part: Part, text: impl Into<String>) {
        self.0.insert(part, text.into());
    }

    fn any(&self, parts: &[Part]) -> bool {
        parts.iter().any(|part| self.0.contains_key(part))
    }
}

impl Shaper {
    /// The descriptor on which to wait for changes that other programs make.
    pub fn changes(&self) -> BorrowedFd<'_> {
        self.hearing.fd()
    }

    /// Whether another program has changed anything in this network namespace since the last call. Call
    /// [`Self::repair`] if it has.
    pub fn is_disturbed(&self) -> bool {
        let mut any = false;
        let lost = self.hearing.heard(|_| any = true);
        any || lost
    }

    /// Compares the kernel's state with what was built, and builds again what is missing or was changed. Returns what
    /// it found, one line each.
    ///
    /// # Errors
    /// If the interface is gone, or the kernel does not answer or refuses.
    pub fn repair(&mut self) -> Result<Vec<String>, ShaperError> {
        let faults = self.faults()?;
        let device = self.link.index;
        let mut messages = Vec::new();
        if faults.any(&[Part::Segments]) {
            messages.push(tc::gso_max_segs(device, GSO_SEGMENTS));
        }
        if faults.any(&[Part::Root]) {
            messages.push(tc::htb_root(device, true));
        }
        if faults.any(&[Part::Root, Part::Classes]) {
            messages.extend(self.host_classes());
            for class in self.pair_classes() {
                messages.push(self.pair_class(&class));
                messages.push(tc::leaf(device, class.minor, class.leaf_bytes));
            }
        }
        for message in messages {
            self.netlink
                .one(message)
                .map_err(ShaperError::kernel(format!("repair {}", self.link.name)))?;
        }
        if faults.any(&[Part::Filters, Part::Interface]) {
            self.attach()?;
        }
        // Without BPF, the filters that point to classes go with the root qdisc alone.
        if faults.any(&[Part::Root]) || faults.any(&[Part::Classes]) && self.programs.is_some() {
            self.point_all()?;
        }
        Ok(faults.0.into_values().collect())
    }

    fn faults(&mut self) -> Result<Faults, ShaperError> {
        let mut faults = Faults::default();
        let present = |shaper: &mut Self| -> Result<_, ShaperError> {
            let links = tc::links(&mut shaper.netlink).map_err(ShaperError::kernel("list interfaces"))?;
            Ok(links.into_iter().find(|link| link.index == shaper.link.index))
        };
        let link = if let Some(link) = present(self)? {
            link
        } else {
            let link = find(&mut self.netlink, self.setup.address)?;
            faults.note(Part::Interface, format!("{} was created again", link.name));
            link
        };
        self.link = link;
        let failed = || ShaperError::kernel("look at queues");
        let mut qdiscs = tc::qdiscs(&mut self.netlink).map_err(failed())?;
        qdiscs.retain(|qdisc| qdisc.device == self.link.index);
        match qdiscs.iter().find(|qdisc| qdisc.is_root()) {
            Some(root) if root.handle == tc::ROOT && root.kind == "htb" => {
                if self.are_classes_changed()? {
                    faults.note(Part::Classes, "its classes were changed");
                }
            }
            Some(root) if root.handle != 0 => {
                faults.note(Part::Root, format!("its root qdisc was replaced by `{}`", root.kind));
            }
            _ => faults.note(Part::Root, "its root qdisc was removed"),
        }
        if self.programs.is_some() {
            let mut removed = !qdiscs.iter().any(tc::Qdisc::is_clsact);
            for way in [Way::Egress, Way::Ingress] {
                removed = removed || self.lacks_filter(way)?;
            }
            if removed {
                faults.note(Part::Filters, "its classifiers were removed");
            }
        }
        if self.link.gso_max_segs != GSO_SEGMENTS {
            faults.note(Part::Segments, "its `gso_max_segs` was changed");
        }
        Ok(faults)
    }

    fn lacks_filter(&mut self, way: Way) -> Result<bool, ShaperError> {
        let filters = tc::filters(&mut self.netlink, self.link.index, way);
        let filters = filters.map_err(ShaperError::kernel("look at classifiers"))?;
        Ok(filters.ours.is_none())
    }

    fn are_classes_changed(&mut self) -> Result<bool, ShaperError> {
        let present = tc::class_rates(&mut self.netlink, self.link.index);
        let present = present.map_err(ShaperError::kernel("look at classes"))?;
        let mut wanted: BTreeMap<u16, [f64; 2]> = [VM, NEWCOMERS, REST]
            .map(|minor| (minor, [self.host_rate_bps(minor); 2]))
            .into();
        wanted.extend(
            self.pair_classes()
                .map(|class| (class.minor, [class.rate_bps.min(class.ceil_bps), class.ceil_bps])),
        );
        let differs = |(minor, [rate_bps, ceil_bps]): (&u16, &[f64; 2])| {
            let rates = self.link.sizes.rates(*rate_bps, *ceil_bps, 0);
            present.get(minor) != Some(&[rates.rate_bps / 8, rates.ceil_bps / 8])
        };
        Ok(wanted.iter().any(differs))
    }

    fn pair_classes(&self) -> impl Iterator<Item = PairClass> + '_ {
        self.peers.values().filter_map(|peer| peer.class)
    }
}
