//! How a region's outputs are cut into parts that tasks own alone.
//!
//! # Safety
//! Every `part` here is [`SplitMut::part`]: an index is asked for at most once while earlier parts of it live.

use std::{marker::PhantomData, ops::Range};

/// Something that falls into disjoint mutable parts, one per task.
pub(crate) trait SplitMut: Sync {
    /// What one task gets.
    type Part;
    /// The number of parts.
    fn parts(&self) -> usize;
    /// Part `index`.
    ///
    /// # Safety
    /// Each index below `parts` is asked for at most once while earlier parts of it live.
    unsafe fn part(&self, index: usize) -> Self::Part;
}

/// A slice in consecutive chunks; the last may be short.
pub(crate) struct Chunks<'a, T> {
    data: *mut T,
    len: usize,
    chunk: usize,
    _borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: parts are disjoint, each goes to one task: sharing the splitter moves `&mut T`s to threads.
unsafe impl<T: Send> Sync for Chunks<'_, T> {}

impl<'a, T> Chunks<'a, T> {
    /// Chunks of `chunk` elements.
    pub(crate) fn new(data: &'a mut [T], chunk: usize) -> Self {
        assert!(chunk > 0, "chunks of nothing");
        Self { len: data.len(), data: data.as_mut_ptr(), chunk, _borrow: PhantomData }
    }
}

impl<'a, T: Send> SplitMut for Chunks<'a, T> {
    type Part = &'a mut [T];
    fn parts(&self) -> usize {
        self.len.div_ceil(self.chunk)
    }
    unsafe fn part(&self, index: usize) -> &'a mut [T] {
        let start = (index * self.chunk).min(self.len);
        let end = (start + self.chunk).min(self.len);
        // SAFETY: inside the borrowed slice, disjoint from other chunks; exclusive by contract.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(start), end - start) }
    }
}

/// Single elements.
pub(crate) struct Each<'a, T>(Chunks<'a, T>);

impl<'a, T> Each<'a, T> {
    /// One part per element.
    pub(crate) fn new(data: &'a mut [T]) -> Self {
        Self(Chunks::new(data, 1))
    }
}

impl<'a, T: Send> SplitMut for Each<'a, T> {
    type Part = &'a mut T;
    fn parts(&self) -> usize {
        self.0.parts()
    }
    unsafe fn part(&self, index: usize) -> &'a mut T {
        assert!(index < self.0.len);
        // SAFETY: inside the borrowed slice; exclusive by contract.
        unsafe { &mut *self.0.data.add(index) }
    }
}

/// A row-major matrix cut into blocks of columns.
pub(crate) struct Columns<'a, T> {
    data: *mut T,
    rows: usize,
    stride: usize,
    block: usize,
    _borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: as for `Chunks`.
unsafe impl<T: Send> Sync for Columns<'_, T> {}

impl<'a, T> Columns<'a, T> {
    /// Blocks of `block` columns of `[rows, width]`; the last may be narrow.
    pub(crate) fn new(data: &'a mut [T], width: usize, block: usize) -> Self {
        assert!(
            block > 0 && width > 0 && data.len().is_multiple_of(width),
            "{} elements in rows of {width}",
            data.len()
        );
        Self { data: data.as_mut_ptr(), rows: data.len() / width, stride: width, block, _borrow: PhantomData }
    }
}

impl<'a, T: Send> SplitMut for Columns<'a, T> {
    type Part = Tile<'a, T>;
    fn parts(&self) -> usize {
        self.stride.div_ceil(self.block)
    }
    unsafe fn part(&self, index: usize) -> Tile<'a, T> {
        let start = (index * self.block).min(self.stride);
        let width = self.block.min(self.stride - start);
        Tile {
            data: self.data.wrapping_add(start),
            rows: self.rows,
            stride: self.stride,
            width,
            _borrow: PhantomData,
        }
    }
}

/// A row-major matrix cut into rectangles: ranges of rows, times blocks of columns. Part `r * blocks + b` is block
/// `b` of the rows in range `r`.
pub(crate) struct Rectangles<'a, T> {
    columns: Columns<'a, T>,
    ranges: &'a [Range<usize>],
}

impl<'a, T> Rectangles<'a, T> {
    /// # Panics
    /// Unless the ranges are in order, disjoint and inside the matrix.
    pub(crate) fn new(data: &'a mut [T], width: usize, block: usize, ranges: &'a [Range<usize>]) -> Self {
        let columns = Columns::new(data, width, block);
        let mut end = 0;
        for range in ranges {
            assert!(
                end <= range.start && range.start <= range.end && range.end <= columns.rows,
                "{ranges:?}"
            );
            end = range.end;
        }
        Self { columns, ranges }
    }
}

impl<'a, T: Send> SplitMut for Rectangles<'a, T> {
    type Part = Tile<'a, T>;
    fn parts(&self) -> usize {
        self.ranges.len() * self.columns.parts()
    }
    unsafe fn part(&self, index: usize) -> Tile<'a, T> {
        let range = &self.ranges[index / self.columns.parts()];
        // SAFETY: distinct indices give distinct column blocks or disjoint row ranges.
        let mut tile = unsafe { self.columns.part(index % self.columns.parts()) };
        tile.data = tile.data.wrapping_add(range.start * tile.stride);
        tile.rows = range.len();
        tile
    }
}

/// A rectangle of a row-major matrix, owned by one task.
pub(crate) struct Tile<'a, T> {
    data: *mut T,
    rows: usize,
    stride: usize,
    width: usize,
    _borrow: PhantomData<&'a mut [T]>,
}

impl<T> Tile<'_, T> {
    /// Columns.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Row `row` of the rectangle.
    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [T] {
        assert!(row < self.rows);
        // SAFETY: inside the borrowed matrix; no other task has this rectangle, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(row * self.stride), self.width) }
    }
}

macro_rules! tuples {
    ($($name:ident $index:tt),+) => {
        impl<$($name: SplitMut),+> SplitMut for ($($name,)+) {
            type Part = ($($name::Part,)+);
            fn parts(&self) -> usize {
                let parts = self.0.parts();
                $(assert_eq!(self.$index.parts(), parts, "outputs of one region in different numbers of parts");)+
                parts
            }
            unsafe fn part(&self, index: usize) -> Self::Part {
                // SAFETY: each member is asked for the same index, under the same contract.
                unsafe { ($(self.$index.part(index),)+) }
            }
        }
    };
}
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
tuples!(A 0, B 1, C 2, D 3, F 4);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;

    #[test]
    fn columns_and_rectangles_cover_their_cells_once() {
        let mut pool = Pool::new(3);
        let mut matrix = vec![0u32; 5 * 10];
        pool.for_each_part(Columns::new(&mut matrix, 10, 4), |index, mut tile| {
            for row in 0..tile.rows {
                tile.row_mut(row).iter_mut().for_each(|cell| *cell += 1 + index as u32);
            }
        });
        assert_eq!(&matrix[..10], [1, 1, 1, 1, 2, 2, 2, 2, 3, 3]);
        let ranges = [0..2, 2..2, 3..5];
        pool.for_each_part(Rectangles::new(&mut matrix, 10, 5, &ranges), |index, mut tile| {
            for row in 0..tile.rows {
                tile.row_mut(row).iter_mut().for_each(|cell| *cell = 100 + index as u32);
            }
        });
        assert_eq!(matrix[0], 100);
        assert_eq!(matrix[19], 101);
        assert_eq!(matrix[2 * 10 + 9], 3);
        assert_eq!(matrix[4 * 10 + 9], 105);
    }
}
