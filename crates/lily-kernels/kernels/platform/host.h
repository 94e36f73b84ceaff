// The dialect in the emulator: the spellings of the platform headers over host_machine.h.
struct alignas(8) uint2 { uint x, y; };    struct alignas(16) uint4 { uint x, y, z, w; };
struct alignas(8) float2 { float x, y; };  struct alignas(16) float4 { float x, y, z, w; };
inline uint2 make_uint2(uint a, uint b) { return {a, b}; }
inline uint4 make_uint4(uint a, uint b, uint c, uint d) { return {a, b, c, d}; }
inline float2 make_float2(float a, float b) { return {a, b}; }
inline float4 make_float4(float a, float b, float c, float d) { return {a, b, c, d}; }
inline float as_float(uint u) { float f; memcpy(&f, &u, 4); return f; }
inline uint as_uint(float f) { uint u; memcpy(&u, &f, 4); return u; }
struct bf16 {
  ushort v;
  bf16() = default;
  explicit bf16(float f) { uint u = as_uint(f); v = std::isnan(f) ? 0x7fc0 : ushort((u + 0x7fffu + ((u >> 16) & 1)) >> 16); }
  explicit operator float() const { return as_float(uint(v) << 16); }
};
struct f16 {                           // IEEE binary16; only read by kernels
  ushort v;
  f16() = default;
  explicit operator float() const {
    const uint sign = uint(v & 0x8000u) << 16, exponent = (v >> 10) & 31u, mantissa = v & 1023u;
    if (exponent == 31) return as_float(sign | 0x7f800000u | (mantissa << 13));
    if (exponent == 0) return std::copysign(float(mantissa) * 5.9604644775390625e-8f, as_float(sign | 0x3f800000u));
    return as_float(sign | ((exponent + 112) << 23) | (mantissa << 13));
  }
};

// --- entry points and ids
#define KERNEL(name, threads, ...) static void name(__VA_ARGS__); static kd::Register kd_reg_##name(#name, threads, &name); static void name(__VA_ARGS__)
#define IN(i, T, name) kd::Ptr<const T, 1> name
#define OUT(i, T, name) kd::Ptr<T, 1> name
#define INOUT(i, T, name) kd::Ptr<T, 1> name
#define PARAMS(i, T, name) const T& name
#define TG_X (kd::cur->x)
#define TG_Y (kd::cur->y)
#define TG_Z (kd::cur->z)
#define TID (kd::cur->f->tid)
#define LANE (kd::cur->f->lane)
#define SG (kd::cur->f->sg)
#define DEP_WAIT()
#define DEP_LAUNCH()
#define FN static inline
#define FN_MEMBER
#define UNROLL
#define UNROLL_8

// --- pointers and vector access
template <class T> using gptr = kd::Ptr<T, 1>;
template <class T> using tptr = kd::Ptr<T, 3>;
template <class T> using lptr = T*;
template <class T> using lref = T&;
#define TG_ARRAY(T, name, N) static thread_local kd::TgArray<T, N> name; name.enter(#name)
template <class V, class T, int S> V vload(kd::Ptr<T, S> q) { V v{}; if (kd::access(q.r, q.p, sizeof(V), alignof(V), false)) memcpy(&v, q.p, sizeof(V)); return v; }
template <class V, class T, int S> V vload_stream(kd::Ptr<T, S> q) { return vload<V>(q); }
template <class V, class T, int S> void vstore(kd::Ptr<T, S> q, V v) { if (kd::access(q.r, q.p, sizeof(V), alignof(V), true)) memcpy((void*)q.p, &v, sizeof(V)); }
inline tptr<float> as_floats(tptr<bf16> t) { return {(float*)t.p, t.r}; }
template <class T> void prefetch_near(kd::Ptr<T, 1> q) { kd::access(q.r, q.p, sizeof(T), alignof(T), false); }

// --- barriers and lanes
inline void tg_barrier(int line = __builtin_LINE()) { kd::meet(line, kd::BARRIER); }
inline void tg_barrier_device(int line = __builtin_LINE()) { kd::meet(line, kd::DEVICE_BARRIER); }
inline void sg_barrier(int line = __builtin_LINE()) { kd::rendezvous(0, 1, line); }
namespace kd {
template <class T> uint64_t bits(T v) { uint64_t u = 0; memcpy(&u, &v, sizeof v); return u; }
template <class T> T unbits(uint64_t u) { T v; memcpy(&v, &u, sizeof v); return v; }
template <class T, class F> T fold(T x, uint kind, int line, F f) {      // a tree, as lanes do it
  const uint64_t* s = rendezvous(bits(x), kind, line); T t[32];
  for (int i = 0; i < 32; i++) t[i] = unbits<T>(s[i]);
  for (int m = 16; m; m >>= 1) for (int i = 0; i < m; i++) t[i] = f(t[i], t[i + m]);
  return t[0];
}
}
inline float simd_sum(float x, int line = __builtin_LINE()) { return kd::fold(x, 2, line, [](float a, float b) { return a + b; }); }
inline float simd_max(float x, int line = __builtin_LINE()) { return kd::fold(x, 3, line, [](float a, float b) { return std::fmax(a, b); }); }
inline uint simd_sum(uint x, int line = __builtin_LINE()) { return kd::fold(x, 12, line, [](uint a, uint b) { return a + b; }); }
inline uint simd_max(uint x, int line = __builtin_LINE()) { return kd::fold(x, 13, line, [](uint a, uint b) { return a > b ? a : b; }); }
inline uint simd_min(uint x, int line = __builtin_LINE()) { return kd::fold(x, 14, line, [](uint a, uint b) { return a < b ? a : b; }); }
template <class T> T simd_shuffle_xor(T x, uint m, int line = __builtin_LINE()) { uint l = LANE; if (m >= 32) kd::fail(kd::DIVERGENCE, "a shuffle with lane ^ %u of 32, at line %d", m, line); return kd::unbits<T>(kd::rendezvous(kd::bits(x), 4, line)[(l ^ m) & 31]); }
template <class T> T simd_shuffle(T x, uint src, int line = __builtin_LINE()) { if (src >= 32) kd::fail(kd::DIVERGENCE, "a shuffle from lane %u of 32, at line %d", src, line); return kd::unbits<T>(kd::rendezvous(kd::bits(x), 5, line)[src & 31]); }
inline bool simd_any(bool b, int line = __builtin_LINE()) { const uint64_t* s = kd::rendezvous(b, 8, line); bool r = false; for (int i = 0; i < 32; i++) r |= s[i] != 0; return r; }

// --- scalars
inline float fexp(float x) { return std::exp(x); }
inline float flog(float x) { return std::log(x); }
inline float fsin(float x) { return std::sin(x); }
inline float fcos(float x) { return std::cos(x); }
inline float frsqrt(float x) { return 1.0f / std::sqrt(x); }
inline float frcp(float x) { return 1.0f / x; }
inline float fmax_(float a, float b) { return std::fmax(a, b); }
inline float fmin_(float a, float b) { return std::fmin(a, b); }
inline float fma_(float a, float b, float c) { return std::fma(a, b, c); }
inline uint umin_(uint a, uint b) { return a < b ? a : b; }
inline uint umax_(uint a, uint b) { return a > b ? a : b; }
inline uint umulhi(uint a, uint b) { return uint((uint64_t(a) * b) >> 32); }
inline uint pack_bf2(float lo, float hi) { return uint(bf16(lo).v) | (uint(bf16(hi).v) << 16); }
