// wgmma in the emulator: the same layouts computed plainly, simdgroup by simdgroup (each holds its own 16 rows of A and of the
// result).  Eager: it cannot show a missing wait.  A tile's swizzle is undone by address bits, as the hardware does it.
#define TG_DYNAMIC(T, name) TG_ARRAY(T, name, SHARED / sizeof(T))
struct wg_tile { tptr<const bf16> t; uint bytes, next; bool n_major; };
inline wg_tile wg_k_major(tptr<const bf16> t, uint bytes) { return {t, bytes, 0, false}; }
inline wg_tile wg_n_major(tptr<const bf16> t, uint bytes, uint next) { return {t, bytes, next, true}; }
namespace kd {
inline float wg_at(const wg_tile& w, uint outer, uint k) {      // outer: row of A or column of B
  uint at = w.n_major ? w.bytes + outer / 64 * w.next + k / 8 * 1024 + k % 8 * 128 + outer % 64 * 2 : w.bytes + outer / 8 * 1024 + outer % 8 * 128 + k * 2;
  at ^= (at >> 3) & 0x70u;
  return float(w.t[at / 2]);
}
template <class A> void wg_product(float (*c)[4], uint n, A a, const wg_tile& b) {   // a(row 0..15, k)
  const uint g = LANE >> 2, t = LANE & 3;
  for (uint i = 0; i < n / 8; i++) for (uint e = 0; e < 4; e++) {
    float s = c[i][e];
    for (uint k = 0; k < 16; k++) s += a(g + (e >> 1) * 8, k) * wg_at(b, i * 8 + 2 * t + (e & 1), k);
    c[i][e] = s;
  }
}
}
template <int N, int N_MAJOR> struct wg_rs { static void mma(float (*c)[4], const uint* a, const wg_tile& b, int line = __builtin_LINE()) {
  if (b.n_major != (N_MAJOR != 0)) kd::fail(kd::DIVERGENCE, "wgmma: the tile lies the other way");
  uint f[4] = {a[0], a[1], a[2], a[3]};
  const uint64_t* s = kd::rendezvous((uint64_t)(uintptr_t)f, 10, line);
  const uint* other[32]; for (int l = 0; l < 32; l++) other[l] = (const uint*)(uintptr_t)s[l];
  kd::wg_product(c, N, [&](uint r, uint k) { const uint u = other[(r & 7) * 4 + (k & 7) / 2][(r >> 3) + 2 * (k >> 3)]; return as_float((k & 1) ? (u & 0xffff0000u) : (u << 16)); }, b);
  kd::rendezvous(0, 11, line);                                  // operands stay alive until every lane has read them
} };
template <int N> struct wg_ss { static void mma(float (*c)[4], const wg_tile& a, const wg_tile& b, bool add, int line = __builtin_LINE()) {
  kd::rendezvous(0, 10, line);
  if (!add) for (uint i = 0; i < N / 8; i++) for (uint e = 0; e < 4; e++) c[i][e] = 0.0f;
  const uint r0 = SG % 4 * 16;
  kd::wg_product(c, N, [&](uint r, uint k) { return kd::wg_at(a, r0 + r, k); }, b);
} };
inline void wg_fence() {}
inline void wg_commit() {}
template <int LEFT> void wg_wait(int line = __builtin_LINE()) { kd::rendezvous(0, 7, line); }
inline void wg_tiles_written() {}
inline float fexp2(float x) { return std::exp2(x); }
