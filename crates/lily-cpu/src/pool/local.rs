//! One value per worker.

use std::{cell::UnsafeCell, marker::PhantomData};

/// One `T` for each worker of a pool, each on its own cache lines.
pub(crate) struct WorkerLocal<T>(Box<[Slot<T>]>);

#[repr(align(128))]
struct Slot<T>(UnsafeCell<T>);

impl<T> WorkerLocal<T> {
    /// One value for each of `workers`.
    pub(crate) fn new(workers: usize, mut make: impl FnMut() -> T) -> Self {
        Self((0..workers).map(|_| Slot(UnsafeCell::new(make()))).collect())
    }

    /// The number of workers.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// All values.
    #[cfg(test)]
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().map(|slot| slot.0.get_mut())
    }

    /// A handle that workers share during one region.
    pub(super) fn shared(&mut self) -> SharedLocal<'_, T> {
        SharedLocal { slots: self.0.as_ptr(), len: self.0.len(), _borrow: PhantomData }
    }
}

/// [`WorkerLocal`] during a region.
pub(super) struct SharedLocal<'a, T> {
    slots: *const Slot<T>,
    len: usize,
    _borrow: PhantomData<&'a mut T>,
}

// SAFETY: the handle gives each worker its own `T` only (the contract of `get`), so sharing it moves `T`s to threads.
unsafe impl<T: Send> Sync for SharedLocal<'_, T> {}

impl<T> SharedLocal<'_, T> {
    /// The value of `worker`.
    ///
    /// # Safety
    /// No two live references to the same worker's value.
    #[expect(clippy::mut_from_ref, reason = "exclusive by the function's contract")]
    pub(super) unsafe fn get(&self, worker: usize) -> &mut T {
        assert!(worker < self.len);
        // SAFETY: inside the slice; exclusive by contract.
        unsafe { &mut *(*self.slots.add(worker)).0.get() }
    }
}
