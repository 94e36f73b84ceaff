// The dialect on CUDA. Self-contained: NVRTC compiles this text at run time and needs no include path.
#pragma once
#define KD_CUDA 1
typedef unsigned int uint; typedef unsigned short ushort; typedef unsigned char uchar;
struct bf16 {
  ushort v;
  bf16() = default;
  __device__ __forceinline__ explicit bf16(float f) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(v) : "f"(f)); }
  __device__ __forceinline__ explicit operator float() const { return __uint_as_float((uint)v << 16); }
};
struct f16 {
  ushort v;
  f16() = default;
  __device__ __forceinline__ explicit f16(float f) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(v) : "f"(f)); }
  __device__ __forceinline__ explicit operator float() const { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v)); return f; }
};

// --- entry points and ids
#ifndef KD_RESIDENT
#define KD_RESIDENT 1         // threadgroups that an SM must hold at a time: bounds the registers
#endif
#define KERNEL(name, threads, ...) extern "C" __global__ void __launch_bounds__(threads, KD_RESIDENT) name(__VA_ARGS__)
// Not __restrict__: it would let the compiler read what the launch before writes through the non-coherent path, or ahead of
// DEP_WAIT(). Weights go through vload_stream, which says so itself.
#define IN(i, T, name) const T* name
#define OUT(i, T, name) T* name
#define INOUT(i, T, name) T* name
#define PARAMS(i, T, name) const T name
#define TG_X blockIdx.x
#define TG_Y blockIdx.y
#define TG_Z blockIdx.z
#define TID threadIdx.x
#define LANE (threadIdx.x & 31u)
#define SG (threadIdx.x >> 5)
#define FN __device__ __forceinline__
#define FN_MEMBER __device__ __forceinline__
// Before DEP_WAIT() the previous kernel may still run: only what no kernel of this submission writes may be read there.
#define DEP_WAIT() asm volatile("griddepcontrol.launch_dependents;\ngriddepcontrol.wait;" ::: "memory")
// Lets the next kernel start once every threadgroup has come by; DEP_WAIT() does so too, for those that need not wait for loads first.
#define DEP_LAUNCH() asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#define UNROLL _Pragma("unroll")
#define UNROLL_8 _Pragma("unroll 8")

// --- pointers and vector access
template <class T> using gptr = T*;
template <class T> using tptr = T*;
template <class T> using lptr = T*;
template <class T> using lref = T&;
#define TG_ARRAY(T, name, N) __shared__ __align__(16) T name[N]
template <class V, class T> FN V vload(T* p) { return *(const V*)p; }
#ifndef KD_LDHINT
#define KD_LDHINT ".L1::no_allocate.L2::256B"
#endif
FN uint4 kd_ldnc(const uint4* p) { uint4 v; asm volatile("ld.global.nc" KD_LDHINT ".v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p)); return v; }
FN uint2 kd_ldnc(const uint2* p) { uint2 v; asm volatile("ld.global.nc" KD_LDHINT ".v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p)); return v; }
FN uint kd_ldnc(const uint* p) { uint v; asm volatile("ld.global.nc" KD_LDHINT ".u32 %0, [%1];" : "=r"(v) : "l"(p)); return v; }
template <class V, class T> FN V vload_stream(T* p) { return kd_ldnc((const V*)p); }
template <class V, class T> FN void vstore(T* p, V v) { *(V*)p = v; }
FN float* as_floats(bf16* t) { return (float*)t; }
template <class T> FN void prefetch_near(T* p) { asm volatile("prefetch.global.L2 [%0];" :: "l"(p)); }

// --- barriers and lanes
FN void tg_barrier() { __syncthreads(); }
FN void tg_barrier_device() { __syncthreads(); }
FN void sg_barrier() { __syncwarp(); }
template <class T> FN T simd_shuffle_xor(T x, uint m) { return __shfl_xor_sync(0xffffffffu, x, m); }
template <class T> FN T simd_shuffle(T x, uint s) { return __shfl_sync(0xffffffffu, x, s); }
FN float simd_sum(float x) { UNROLL for (int m = 16; m; m >>= 1) x += simd_shuffle_xor(x, m); return x; }
FN float simd_max(float x) { UNROLL for (int m = 16; m; m >>= 1) x = fmaxf(x, simd_shuffle_xor(x, m)); return x; }
FN uint simd_sum(uint x) { return __reduce_add_sync(0xffffffffu, x); }
FN uint simd_max(uint x) { return __reduce_max_sync(0xffffffffu, x); }
FN uint simd_min(uint x) { return __reduce_min_sync(0xffffffffu, x); }
FN bool simd_any(bool b) { return __any_sync(0xffffffffu, b); }

// --- scalars
FN float as_float(uint u) { return __uint_as_float(u); }
FN uint as_uint(float f) { return __float_as_uint(f); }
FN float fexp(float x) { return __expf(x); }
FN float flog(float x) { return logf(x); }
FN float fsin(float x) { return __sinf(x); }
FN float fcos(float x) { return __cosf(x); }
FN float frsqrt(float x) { return rsqrtf(x); }
FN float frcp(float x) { return __frcp_rn(x); }
FN float fmax_(float a, float b) { return fmaxf(a, b); }
FN float fmin_(float a, float b) { return fminf(a, b); }
FN float fma_(float a, float b, float c) { return fmaf(a, b, c); }
FN uint umin_(uint a, uint b) { return a < b ? a : b; }
FN uint umax_(uint a, uint b) { return a > b ? a : b; }
FN uint umulhi(uint a, uint b) { return __umulhi(a, b); }
FN uint pack_bf2(float lo, float hi) { uint r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo)); return r; }

// --- 4-bit codes: float(1 + q/16 | 1 + q/256) built by shift + and/or; x prescaled by 16 (odd codes) and 256 (even codes)
FN float q4_prescale(float* x) { float e = 0, o = 0; UNROLL for (int i = 0; i < 8; i += 2) { x[i] *= 256.0f; x[i + 1] *= 16.0f; e += x[i]; o += x[i + 1]; } return e + o; }
FN float q4_dot8(uint w, const float* xs, float acc) {
  uint s[4] = {w << 15, w << 7, w >> 1, w >> 9};
  UNROLL for (int i = 0; i < 4; i++) {
    acc = fmaf(xs[2 * i], __uint_as_float((s[i] & 0x00078000u) | 0x3f800000u), acc);
    acc = fmaf(xs[2 * i + 1], __uint_as_float((s[i] & 0x00780000u) | 0x3f800000u), acc);
  }
  return acc;
}
FN uint kd_bf2(ushort v) { return __byte_perm(v, v, 0x1010); }
FN uint kd_dq2(uint t, uint s2, uint b2) {            // t: two nibbles at bits 0..3 and 16..19
  uint q = (t & 0x000f000fu) | 0x43004300u, r;        // 128 + q as bf16 pair, exact
  asm("{.reg .b32 d; sub.rn.bf16x2 d, %1, %2; fma.rn.bf16x2 %0, d, %3, %4;}" : "=r"(r) : "r"(q), "r"(0x43004300u), "r"(s2), "r"(b2));
  return r;
}
FN uint4 q4_dequant8(uint w, bf16 s, bf16 b) {        // pairs come out as (0,4)(1,5)(2,6)(3,7): re-pair with prmt
  uint s2 = kd_bf2(s.v), b2 = kd_bf2(b.v);
  uint p0 = kd_dq2(w, s2, b2), p1 = kd_dq2(w >> 4, s2, b2), p2 = kd_dq2(w >> 8, s2, b2), p3 = kd_dq2(w >> 12, s2, b2);
  return make_uint4(__byte_perm(p0, p1, 0x5410), __byte_perm(p2, p3, 0x5410), __byte_perm(p0, p1, 0x7632), __byte_perm(p2, p3, 0x7632));
}
FN void copy16_async(bf16* d, const bf16* s) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((uint)__cvta_generic_to_shared(d)), "l"(s) : "memory"); }
FN void async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
FN void async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }
