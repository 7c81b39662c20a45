//! A binary heap whose entries can be found, moved and removed by their number.

/// The place of an entry that is in no heap.
const NOWHERE: u32 = u32::MAX;

/// Keys with numbers, the lowest key first; equal keys by number.
///
/// A table outside the heap has the position of each number, so that many heaps over disjoint numbers share one table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heap {
    items: Vec<(f64, u32)>,
}

/// The position of each number in its heap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(Vec<u32>);

impl Places {
    /// Makes room for the numbers below `count`.
    pub(crate) fn grow(&mut self, count: usize) {
        self.0.resize(count.max(self.0.len()), NOWHERE);
    }
}

impl Heap {
    /// The entry with the lowest key.
    pub(crate) fn first(&self) -> Option<(f64, u32)> {
        self.items.first().copied()
    }

    /// Whether the heap is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// All numbers, in arbitrary order.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.items.iter().map(|&(_, number)| number)
    }

    /// Adds a number that is in no heap of `places`, or gives the number a new key.
    pub(crate) fn set(&mut self, key: f64, number: u32, places: &mut Places) {
        match places.0[number as usize] {
            NOWHERE => {
                self.items.push((key, number));
                self.up(self.items.len() - 1, places);
            }
            at => {
                let at = at as usize;
                let before = std::mem::replace(&mut self.items[at].0, key);
                if key < before {
                    self.up(at, places);
                } else {
                    self.down(at, places);
                }
            }
        }
    }

    /// Removes a number; does nothing if it is in no heap.
    pub(crate) fn remove(&mut self, number: u32, places: &mut Places) {
        let at = std::mem::replace(&mut places.0[number as usize], NOWHERE);
        if at == NOWHERE {
            return;
        }
        let at = at as usize;
        self.items.swap_remove(at);
        if at < self.items.len() {
            let settled = self.up(at, places);
            self.down(settled, places);
        }
    }

    fn up(&mut self, mut at: usize, places: &mut Places) -> usize {
        let item = self.items[at];
        while at > 0 {
            let parent = (at - 1) / 2;
            if !before(item, self.items[parent]) {
                break;
            }
            self.put(at, self.items[parent], places);
            at = parent;
        }
        self.put(at, item, places);
        at
    }

    fn down(&mut self, mut at: usize, places: &mut Places) {
        let item = self.items[at];
        loop {
            let mut child = 2 * at + 1;
            if child >= self.items.len() {
                break;
            }
            if child + 1 < self.items.len() && before(self.items[child + 1], self.items[child]) {
                child += 1;
            }
            if !before(self.items[child], item) {
                break;
            }
            self.put(at, self.items[child], places);
            at = child;
        }
        self.put(at, item, places);
    }

    fn put(&mut self, at: usize, item: (f64, u32), places: &mut Places) {
        self.items[at] = item;
        places.0[item.1 as usize] = at as u32;
    }
}

fn before(a: (f64, u32), b: (f64, u32)) -> bool {
    a.0 < b.0 || (a.0 <= b.0 && a.1 < b.1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_sorted_map(steps in prop::collection::vec((0_u32..12, prop::option::of(0_u8..20)), 1..200)) {
            let (mut heap, mut places) = (Heap::default(), Places::default());
            places.grow(12);
            let mut model = std::collections::BTreeMap::new();
            for (number, key) in steps {
                if let Some(key) = key {
                    heap.set(f64::from(key), number, &mut places);
                    model.insert(number, key);
                } else {
                    heap.remove(number, &mut places);
                    model.remove(&number);
                }
                let least = model.iter().map(|(&number, &key)| (key, number)).min();
                prop_assert_eq!(heap.first(), least.map(|(key, number)| (f64::from(key), number)));
                prop_assert_eq!(heap.numbers().count(), model.len());
            }
        }
    }
}
