// Helpers of the dialect, written in the dialect: the same on every platform.
FN float bf_lo(uint u) { return as_float(u << 16); }
FN float bf_hi(uint u) { return as_float(u & 0xffff0000u); }
FN void unpack8(uint4 v, lptr<float> o) {
  o[0] = bf_lo(v.x); o[1] = bf_hi(v.x); o[2] = bf_lo(v.y); o[3] = bf_hi(v.y);
  o[4] = bf_lo(v.z); o[5] = bf_hi(v.z); o[6] = bf_lo(v.w); o[7] = bf_hi(v.w);
}
// 8 adjacent floats
FN void load8(gptr<const float> p, lptr<float> o) {
  const float4 a = vload<float4>(p), b = vload<float4>(p + 4);
  o[0] = a.x; o[1] = a.y; o[2] = a.z; o[3] = a.w; o[4] = b.x; o[5] = b.y; o[6] = b.z; o[7] = b.w;
}
// Asks for the first `words` words of p, 128 bytes at a time, to be brought near: the weights of a launch to come, while this one
// waits. one: of all `threads` that share the work.
FN void prefetch_share(gptr<const uint> p, uint words, uint one, uint threads) {
  for (uint i = one * 32; i < words; i += threads * 32) prefetch_near(p + i);
}
FN float sigmoid(float x) { return frcp(1.0f + fexp(-x)); }
FN float silu(float g) { return g * frcp(1.0f + fexp(-g)); }
FN float softplus(float x) { return fmax_(x, 0.0f) + flog(1.0f + fexp(x > 0.0f ? -x : x)); }

// sum over aligned groups of W lanes
template <int W> FN float simd_sum_w(float x) {
  UNROLL for (uint m = W / 2; m > 0; m >>= 1) x += simd_shuffle_xor(x, m);
  return x;
}
// N values per lane (a power of two up to 32) -> every lane i returns the sum over all lanes of v[i % N]: for 32 values 31
// shuffles instead of 160
template <int M> FN void kd_rs(lptr<float> v, uint lane) {
  const bool up = (lane & M) != 0;
  UNROLL for (int i = 0; i < M; i++) { const float send = up ? v[i] : v[i + M], keep = up ? v[i + M] : v[i]; v[i] = keep + simd_shuffle_xor(send, M); }
}
template <int N> FN float simd_reduce_scatter(lptr<float> v, uint lane) {
  if (N >= 32) kd_rs<(N >= 32 ? 16 : 0)>(v, lane);
  if (N >= 16) kd_rs<(N >= 16 ? 8 : 0)>(v, lane);
  if (N >= 8) kd_rs<(N >= 8 ? 4 : 0)>(v, lane);
  if (N >= 4) kd_rs<(N >= 4 ? 2 : 0)>(v, lane);
  if (N >= 2) kd_rs<(N >= 2 ? 1 : 0)>(v, lane);
  float s = v[0];
  UNROLL for (uint m = 16; m >= (uint)N && m > 0; m >>= 1) s += simd_shuffle_xor(s, m);
  return s;
}
FN float simd_reduce_scatter32(lptr<float> v, uint lane) { return simd_reduce_scatter<32>(v, lane); }

// A float as a key that orders like it does (NaN apart): a greater float has a greater key; 0 is below every float.
FN uint order_key(float f) { const uint u = as_uint(f); return (u & 0x80000000u) ? ~u : (u | 0x80000000u); }
FN float key_value(uint k) { return as_float((k & 0x80000000u) ? (k & 0x7fffffffu) : ~k); }

// What changes from token to token lives in a small buffer of words, read by the kernels that need it (src/step.rs).
#define STEP_TOKEN 0            // id to consume
#define STEP_POSITION 1         // its position: tokens in the cache before it
#define STEP_CHOICE_LOW 2       // which token of the answer is chosen next, from 0: the counter of the random numbers
#define STEP_CHOICE_HIGH 3
#define STEP_HISTORY 4          // tokens that ever entered the ring of the repetition window
#define STEP_STATUS 5           // see STATUS_*
#define STEP_WORDS 8
#define STATUS_OK 0
#define STATUS_NAN 1            // a logit is NaN
#define STATUS_INFINITE 2       // a logit is infinite
#define STATUS_NOTHING 3        // no token is allowed
