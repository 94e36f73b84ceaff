//! The few f32 vector operations that the kernels are written in, and their scalar form.
//!
//! Every method is `unsafe` for one reason: the instruction set behind the type must be there. Loads and stores
//! also need `LANES` valid elements at the pointer, of any alignment.

/// A vector of f32 lanes of one instruction set.
pub(crate) trait Vector: Copy {
    /// Lanes.
    const LANES: usize;
    /// All lanes `x`.
    unsafe fn splat(x: f32) -> Self;
    /// Loads f32.
    unsafe fn load(p: *const f32) -> Self;
    /// Stores f32.
    unsafe fn store(self, p: *mut f32);
    /// Loads half precision.
    unsafe fn load_f16(p: *const u16) -> Self;
    /// Loads bfloat16 from little-endian bytes.
    unsafe fn load_bf16(p: *const u16) -> Self;
    /// Loads unsigned bytes as numbers.
    unsafe fn load_u8(p: *const u8) -> Self;
    /// `self + b`.
    unsafe fn add(self, b: Self) -> Self;
    /// `self - b`.
    unsafe fn sub(self, b: Self) -> Self;
    /// `self * b`.
    unsafe fn mul(self, b: Self) -> Self;
    /// `self / b`.
    unsafe fn div(self, b: Self) -> Self;
    /// The larger of each pair of lanes; where `b` is NaN, `b` (also where `self` is, on x86).
    unsafe fn max(self, b: Self) -> Self;
    /// The smaller of each pair of lanes; NaN as for `max`.
    unsafe fn min(self, b: Self) -> Self;
    /// `self * b + c`, rounded once where the machine can.
    unsafe fn mul_add(self, b: Self, c: Self) -> Self;
    /// Nearest integer, ties to even.
    unsafe fn round(self) -> Self;
    /// `self * 2^n` for integral `n` in -126..=127.
    unsafe fn ldexp(self, n: Self) -> Self;
    /// The magnitudes.
    unsafe fn abs(self) -> Self;
    /// The sum of all lanes.
    unsafe fn sum(self) -> f32;
    /// The sums of four vectors.
    #[inline(always)]
    unsafe fn sums(v: [Self; 4]) -> [f32; 4] {
        // SAFETY: the same contract.
        unsafe { [v[0].sum(), v[1].sum(), v[2].sum(), v[3].sum()] }
    }
    /// The largest lane.
    unsafe fn max_lane(self) -> f32;
    /// Rounds to i8 with saturation and stores `LANES` bytes.
    unsafe fn store_i8(self, p: *mut i8);
}

/// How numbers lie in memory. Types instead of closures: a closure has no target features of its own, and its
/// intrinsics would become calls.
pub(crate) trait Float {
    /// Bytes per number.
    const SIZE: usize;
    /// `V::LANES` numbers from `p` on.
    unsafe fn load<V: Vector>(p: *const u8) -> V;
}

/// Single precision.
pub(crate) struct F32;
/// Half precision.
pub(crate) struct F16;
/// bfloat16.
pub(crate) struct Bf16;

impl Float for F32 {
    const SIZE: usize = 4;
    #[inline(always)]
    unsafe fn load<V: Vector>(p: *const u8) -> V {
        // SAFETY: the same contract.
        unsafe { V::load(p.cast()) }
    }
}

impl Float for F16 {
    const SIZE: usize = 2;
    #[inline(always)]
    unsafe fn load<V: Vector>(p: *const u8) -> V {
        // SAFETY: the same contract.
        unsafe { V::load_f16(p.cast()) }
    }
}

impl Float for Bf16 {
    const SIZE: usize = 2;
    #[inline(always)]
    unsafe fn load<V: Vector>(p: *const u8) -> V {
        // SAFETY: the same contract.
        unsafe { V::load_bf16(p.cast()) }
    }
}

/// One lane, on any machine.
#[derive(Clone, Copy)]
pub(crate) struct F32x1(f32);

impl F32x1 {
    /// A lane of this value.
    #[inline(always)]
    pub(crate) fn of(value: f32) -> Self {
        Self(value)
    }
}

impl Vector for F32x1 {
    const LANES: usize = 1;
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Self(x)
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: valid by contract.
        Self(unsafe { p.read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: valid by contract.
        unsafe { p.write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self {
        // SAFETY: valid by contract.
        Self(half::f16::from_bits(unsafe { p.read_unaligned() }).to_f32())
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self {
        // SAFETY: valid by contract.
        Self(f32::from_bits(u32::from(unsafe { p.read_unaligned() }) << 16))
    }
    #[inline(always)]
    unsafe fn load_u8(p: *const u8) -> Self {
        // SAFETY: valid by contract.
        Self(f32::from(unsafe { *p }))
    }
    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        Self(self.0 + b.0)
    }
    #[inline(always)]
    unsafe fn sub(self, b: Self) -> Self {
        Self(self.0 - b.0)
    }
    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        Self(self.0 * b.0)
    }
    #[inline(always)]
    unsafe fn div(self, b: Self) -> Self {
        Self(self.0 / b.0)
    }
    #[inline(always)]
    unsafe fn max(self, b: Self) -> Self {
        Self(if self.0 > b.0 { self.0 } else { b.0 })
    }
    #[inline(always)]
    unsafe fn min(self, b: Self) -> Self {
        Self(if self.0 < b.0 { self.0 } else { b.0 })
    }
    #[inline(always)]
    unsafe fn mul_add(self, b: Self, c: Self) -> Self {
        // Not f32::mul_add: without the instruction that is a slow library call.
        Self(self.0 * b.0 + c.0)
    }
    #[inline(always)]
    unsafe fn round(self) -> Self {
        Self(self.0.round_ties_even())
    }
    #[inline(always)]
    unsafe fn ldexp(self, n: Self) -> Self {
        Self(self.0 * f32::from_bits(((n.0 as i32 + 127) as u32) << 23))
    }
    #[inline(always)]
    unsafe fn abs(self) -> Self {
        Self(self.0.abs())
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        self.0
    }
    #[inline(always)]
    unsafe fn max_lane(self) -> f32 {
        self.0
    }
    #[inline(always)]
    unsafe fn store_i8(self, p: *mut i8) {
        // SAFETY: valid by contract.
        unsafe { *p = self.0.round_ties_even() as i8 }
    }
}
