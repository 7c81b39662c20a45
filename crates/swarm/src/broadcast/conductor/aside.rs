//! Hosts of trees that no block reaches any more. Other hosts would wait for what such a host should pass on, so it
//! leaves the trees.

use super::pending::SILENT_S;
use super::{Conductor, Overlay, STALL_S, Standing};

impl Conductor {
    /// The hosts that left the trees of a packing since the last call.
    pub fn aside(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.aside)
    }

    /// Takes hosts out of the trees of a packing at their first stall. Such a host then gets the object like a late one,
    /// from one parent, so that no other host depends on it.
    ///
    /// A parent that merely starves, because it waits for such a host, stays where it is. `stalled` has the edges, child
    /// and parent, that have brought no block for long although the parent has some.
    pub(super) fn put_aside(&mut self, stalled: &[(usize, usize)], now_s: f64) {
        let cut_off: Vec<usize> = (self.ground.receivers().iter().copied())
            .filter(|&host| self.is_cut_off(host, stalled, now_s))
            .collect();
        for host in cut_off {
            let Overlay::Packing(packing) = &mut self.overlay else {
                return;
            };
            packing.remove(host);
            // A host for which no parent is left shows by its broken subscriptions.
            let _ = packing.rearrange(&self.avoided);
            self.pending
                .retain(|&(child, parent), _| child != host && parent != host);
            self.make_late(host, now_s);
            self.aside.push(host);
            let text = format!("{} gets no bytes and passes none on, and is put last", self.name(host));
            self.log.push(text);
        }
    }

    /// Takes a host out of a tree at its first stall, if others get their blocks from it. It then gets the object like a
    /// late one. At the end of a chain it could cross the lines between racks a second time, and slow all others down.
    ///
    /// Its parent may be the cause. The parent leaves instead if another child of it has stalled before, or if it has the
    /// whole object and so loses nothing. Returns whether a host has left.
    pub(super) fn leave_tree(&mut self, host: usize, parent: usize, now_s: f64) -> bool {
        let Overlay::Tree(tree) = &mut self.overlay else {
            return false;
        };
        let is_suspect = self.suspects.contains(&parent) || self.nodes[parent].have.is_full();
        let accused = is_suspect && tree.order()[0] != parent;
        let leaver = if accused { parent } else { host };
        if self.nodes[host].late || !tree.has_children(leaver) {
            return false;
        }
        tree.remove(leaver);
        if !accused {
            self.suspects.insert(parent);
            self.avoided.insert((host, parent));
        }
        self.make_late(leaver, now_s);
        let text = if accused {
            format!("{} passes no bytes on, and is put last", self.name(parent))
        } else {
            format!(
                "{} gets no bytes from {} and is put last",
                self.name(host),
                self.name(parent)
            )
        };
        self.log.push(text);
        true
    }

    /// Makes a host that has left the trees a late one.
    fn make_late(&mut self, host: usize, now_s: f64) {
        let node = &mut self.nodes[host];
        (node.late, node.grew_s) = (true, now_s);
        node.breaks.clear();
        node.failures = 1;
        self.given.remove(&host);
        self.settled_s = now_s;
    }

    /// Whether a host is cut off:
    ///
    /// 1. no byte has reached it for `STALL_S`, or one of its edges is stalled and no byte has reached it for `SILENT_S`;
    /// 2. a parent that is well has had blocks for it for `SILENT_S`;
    /// 3. it has children that lack blocks, and none of them has got one from it for `SILENT_S`.
    fn is_cut_off(&self, host: usize, stalled: &[(usize, usize)], now_s: f64) -> bool {
        let node = &self.nodes[host];
        let is_stalled = stalled.iter().any(|&(child, parent)| child == host || parent == host);
        let least_s = if is_stalled { SILENT_S } else { STALL_S };
        if node.standing != Standing::Live || node.late || now_s - node.grew_s.max(self.settled_s) <= least_s {
            return false;
        }
        let mut offers = (self.pending.iter()).filter(|&(&(child, _), pending)| child == host && pending.offered);
        let offered = offers.any(|(&(_, parent), pending)| self.is_well(parent, now_s) && pending.is_silent(now_s));
        let mut children = (self.pending.iter())
            .filter(|&(&(_, parent), pending)| parent == host && pending.lacking > 0)
            .map(|(_, pending)| pending.is_silent(now_s))
            .peekable();
        offered && children.peek().is_some() && children.all(|silent| silent)
    }

    /// Whether a host can pass blocks on, as far as its own reports show.
    fn is_well(&self, host: usize, now_s: f64) -> bool {
        let node = &self.nodes[host];
        node.takes_part() && (node.have.is_full() || now_s - node.grew_s <= SILENT_S)
    }
}
