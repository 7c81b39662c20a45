//! Values that a run's jobs keep for peers that ask for them, by the job's name.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Thing = Arc<dyn Any + Send + Sync>;

/// Values by name. Each value stays until the [`Place`] that [`Shelf::put`] returned is dropped.
#[derive(Clone, Default)]
pub struct Shelf(Arc<Mutex<BTreeMap<String, Thing>>>);

impl Shelf {
    /// Stores a value. The name must be free, as the job's name is.
    pub fn put<T: Any + Send + Sync>(&self, name: &str, thing: Arc<T>) -> Place {
        self.lock().insert(name.to_owned(), thing);
        Place {
            shelf: self.clone(),
            name: name.to_owned(),
        }
    }

    /// Returns the value of that name and type. If none exists, stores a new one until `remove` or the end of the run.
    pub fn shared<T: Any + Send + Sync>(&self, name: &str, new: impl FnOnce() -> T) -> Arc<T> {
        let mut things = self.lock();
        let known = things.get(name).cloned().and_then(|thing| thing.downcast().ok());
        known.unwrap_or_else(|| {
            let thing = Arc::new(new());
            things.insert(name.to_owned(), Arc::clone(&thing) as Thing);
            thing
        })
    }

    /// Removes the value of that name.
    pub fn remove(&self, name: &str) {
        self.lock().remove(name);
    }

    /// Returns the value of that name, if it exists and has that type.
    pub fn get<T: Any + Send + Sync>(&self, name: &str) -> Option<Arc<T>> {
        let thing = self.lock().get(name).cloned();
        thing.and_then(|thing| thing.downcast().ok())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Thing>> {
        // The lock cannot be poisoned: no code panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().keys()).finish()
    }
}

/// A value's place on the shelf. Dropping it removes the value.
#[derive(Debug)]
pub struct Place {
    shelf: Shelf,
    name: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shelf.lock().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_stays_as_long_as_its_place() {
        let shelf = Shelf::default();
        let place = shelf.put("one", Arc::new(7u32));
        assert_eq!(shelf.get::<u32>("one").as_deref(), Some(&7));
        assert!(shelf.get::<u64>("one").is_none() && shelf.get::<u32>("two").is_none());
        drop(place);
        assert!(shelf.get::<u32>("one").is_none());
        let both = [shelf.shared("two", || 1u32), shelf.shared("two", || 2u32)];
        assert_eq!(both, [Arc::new(1), Arc::new(1)]);
        shelf.remove("two");
        assert_eq!(*shelf.shared("two", || 3u32), 3);
    }
}
