//! Keys and values of one attention layer and sequence, in pages that snapshots share.

use crate::{
    Precision,
    simd::{KvElement, KvPage},
};
use lily_checkpoint::AttentionConfig;
use std::sync::Arc;

/// Tokens per page.
pub(crate) const PAGE: usize = 64;

/// Dimensions of a KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KvShape {
    /// KV heads.
    pub heads: usize,
    /// Elements per head.
    pub dim: usize,
    /// Single precision instead of half.
    pub wide: bool,
}

impl KvShape {
    /// That of a model at a precision.
    pub(crate) fn new(config: &AttentionConfig, precision: Precision) -> Self {
        Self { heads: config.kv_heads, dim: config.head_dim, wide: precision == Precision::F32 }
    }

    fn page_elements(self) -> usize {
        2 * self.heads * self.dim * PAGE
    }

    /// Bytes per token in one layer.
    pub(crate) fn token_bytes(self) -> usize {
        2 * self.heads * self.dim * if self.wide { 4 } else { 2 }
    }
}

/// `PAGE` tokens: `[heads][keys | values]`, keys `[dim][PAGE]`, values `[PAGE][dim]`.
#[derive(Debug, Clone)]
pub(crate) enum Page {
    F16(Box<[u16]>),
    F32(Box<[f32]>),
}

/// The cache. Cloning it shares the pages; a shared page is copied when it is next written.
#[derive(Debug, Clone)]
pub(crate) struct KvCache {
    shape: KvShape,
    pages: Vec<Arc<Page>>,
}

impl KvCache {
    /// An empty cache.
    pub(crate) fn new(shape: KvShape) -> Self {
        Self { shape, pages: Vec::new() }
    }

    /// Makes room for `tokens` in all. False when memory is out.
    pub(crate) fn reserve(&mut self, tokens: usize) -> bool {
        while self.pages.len() * PAGE < tokens {
            let Some(page) = Page::zeros(self.shape) else { return false };
            if self.pages.try_reserve(1).is_err() {
                return false;
            }
            self.pages.push(Arc::new(page));
        }
        true
    }

    /// Exclusive access to the pages that hold tokens `first..end`, copying those that a snapshot shares.
    pub(crate) fn pages_mut(&mut self, first: usize, end: usize) -> Vec<&mut Page> {
        self.pages[first / PAGE..end.div_ceil(PAGE)].iter_mut().map(Arc::make_mut).collect()
    }

    /// Exclusive access to the page of one token.
    pub(crate) fn page_mut(&mut self, token: usize) -> &mut Page {
        Arc::make_mut(&mut self.pages[token / PAGE])
    }

    /// The first `tokens` rows of `head` in page `index`.
    pub(crate) fn rows(&self, index: usize, head: usize, tokens: usize) -> KvPage<'_> {
        let KvShape { dim, .. } = self.shape;
        let keys = 2 * head * PAGE * dim;
        let values = keys + PAGE * dim;
        let (keys, values) = (keys..keys + PAGE * dim, values..values + PAGE * dim);
        let (keys, values) = match &*self.pages[index] {
            Page::F16(page) => (KvElement::F16(&page[keys]), KvElement::F16(&page[values])),
            Page::F32(page) => (KvElement::F32(&page[keys]), KvElement::F32(&page[values])),
        };
        KvPage { tokens, stride: PAGE, dim, keys, values }
    }

    /// Bytes of all pages.
    pub(crate) fn bytes(&self) -> usize {
        self.pages.len() * PAGE * self.shape.token_bytes()
    }
}

impl Page {
    fn zeros(shape: KvShape) -> Option<Self> {
        fn zeros<T: Default + Clone>(len: usize) -> Option<Box<[T]>> {
            let mut page = Vec::new();
            page.try_reserve_exact(len).ok()?;
            page.resize(len, T::default());
            Some(page.into_boxed_slice())
        }
        let len = shape.page_elements();
        Some(if shape.wide { Self::F32(zeros(len)?) } else { Self::F16(zeros(len)?) })
    }

    /// Writes the key and the value of `head` for the token at `slot`.
    pub(crate) fn write(&mut self, head: usize, slot: usize, key: &[f32], value: &[f32]) {
        let dim = key.len();
        let (start, half) = (2 * head * PAGE * dim, PAGE * dim);
        let values = start + half + slot * dim;
        let slots = start + slot..start + half;
        match self {
            Self::F16(page) => {
                let slots = page[slots].iter_mut().step_by(PAGE);
                key.iter().zip(slots).for_each(|(key, slot)| *slot = narrow(*key));
                let values = &mut page[values..values + dim];
                value.iter().zip(values).for_each(|(value, slot)| *slot = narrow(*value));
            }
            Self::F32(page) => {
                let slots = page[slots].iter_mut().step_by(PAGE);
                key.iter().zip(slots).for_each(|(key, slot)| *slot = *key);
                page[values..values + dim].copy_from_slice(value);
            }
        }
    }
}

/// To half precision; what is too large becomes the largest number, NaN stays NaN.
fn narrow(value: f32) -> u16 {
    let largest = half::f16::MAX.to_f32();
    half::f16::from_f32(value.clamp(-largest, largest)).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_pages_until_one_is_written() {
        let shape = KvShape { heads: 2, dim: 4, wide: false };
        let mut cache = KvCache::new(shape);
        assert!(cache.reserve(PAGE + 1));
        cache.page_mut(PAGE).write(1, 0, &[1.0; 4], &[2.0; 4]);
        let frozen = cache.clone();
        assert!(
            Arc::ptr_eq(&cache.pages[0], &frozen.pages[0]) && Arc::ptr_eq(&cache.pages[1], &frozen.pages[1])
        );
        cache.page_mut(PAGE).write(1, 0, &[3.0; 4], &[4.0; 4]);
        assert!(
            Arc::ptr_eq(&cache.pages[0], &frozen.pages[0]) && !Arc::ptr_eq(&cache.pages[1], &frozen.pages[1])
        );
        let first = |cache: &KvCache| match cache.rows(1, 1, 1).values {
            KvElement::F16(values) => half::f16::from_bits(values[0]).to_f32(),
            KvElement::F32(values) => values[0],
        };
        assert_eq!((first(&cache), first(&frozen)), (4.0, 2.0));
        assert_eq!(cache.bytes(), 2 * PAGE * 2 * 2 * 4 * 2);
    }

    #[test]
    fn half_precision_saturates_and_keeps_nan() {
        let out = [1e6, -1e6, f32::NAN].map(|value| half::f16::from_bits(narrow(value)).to_f32());
        assert_eq!(out[..2], [65504.0, -65504.0]);
        assert!(out[2].is_nan());
    }
}
