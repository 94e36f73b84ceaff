//! Where weights come from.

/// A matrix `[rows, cols]` that hands out one row at a time, widened to f32. It multiplies from the left: `y = W x`.
pub trait RowSource: Send + Sync {
    /// Output dimension.
    fn rows(&self) -> usize;
    /// Input dimension.
    fn cols(&self) -> usize;
    /// Writes row `row` to `out`, which has `cols` elements.
    fn row(&self, row: usize, out: &mut [f32]);
}

/// A matrix held in f32, row-major.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    rows: usize,
    cols: usize,
    values: Vec<f32>,
}

impl Rows {
    /// Takes `rows * cols` values.
    ///
    /// # Panics
    /// If there are more or fewer.
    pub fn new(rows: usize, cols: usize, values: Vec<f32>) -> Self {
        assert_eq!(values.len(), rows * cols, "a matrix of {rows} x {cols}");
        Self { rows, cols, values }
    }

    /// The values, row-major.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }
}

impl RowSource for Rows {
    fn rows(&self) -> usize {
        self.rows
    }

    fn cols(&self) -> usize {
        self.cols
    }

    fn row(&self, row: usize, out: &mut [f32]) {
        out.copy_from_slice(&self.values[row * self.cols..(row + 1) * self.cols]);
    }
}
