// Matrix tiles of the dialect in the emulator: plain loops, Metal's padding counted.
// --- matrix tiles: ROWS x 64 bf16 in threadgroup memory, opaque layout, written 8 values at a time
#define TG_TILE(name, ROWS) static thread_local kd::TgArray<bf16, (ROWS) * 64> name; name.enter(#name, (ROWS) * 72 * sizeof(bf16))   /* Metal pads rows to 72 */
#define RESULT_LD 64
inline void tile_barrier(int line = __builtin_LINE()) { tg_barrier(line); }
inline void tile_wait(int line = __builtin_LINE()) { kd::rendezvous(0, 7, line); }
inline uint tile_at(uint row, uint k8) { return row * 64 + k8 * 8; }
inline void tile_put8(tptr<bf16> t, uint row, uint k8, uint4 v) { vstore(t + (row * 64 + k8 * 8), v); }
template <int TM_, int TN_, int GM_, int GN_> struct tg_acc {      // each thread owns column pairs (n, n + WN/2) of its simdgroup's block
  static constexpr int WM = TM_ / GM_, WN = TN_ / GN_, H = WN / 2, E = WM * H / 32;
  float c[E][2];
  void zero() { for (int i = 0; i < E; i++) c[i][0] = c[i][1] = 0; }
  void mma(tptr<bf16> A, tptr<bf16> B, uint sg, uint lane, uint, int line = __builtin_LINE()) {
    kd::rendezvous(0, 6, line);
    uint r0 = (sg / GN_) * WM, c0 = (sg % GN_) * WN;
    for (int i = 0; i < E; i++) for (int hf = 0; hf < 2; hf++) { uint e = i * 32 + lane, r = r0 + e / H, n = c0 + e % H + hf * H; float s = c[i][hf];
      for (int k = 0; k < 64; k += 8) { uint4 a = vload<uint4>(A + (r * 64 + k)), b = vload<uint4>(B + (n * 64 + k)); bf16 x[8], y[8]; memcpy(x, &a, 16); memcpy(y, &b, 16); for (int j = 0; j < 8; j++) s += float(x[j]) * float(y[j]); }
      c[i][hf] = s; }
  }
  template <class F> void fold(F f) { for (int i = 0; i < E; i++) c[i][0] = f(c[i][0], c[i][1]); }
  void store_left(tptr<float> C, uint ld, uint sg, uint lane) {
    uint r0 = (sg / GN_) * WM, c0 = (sg % GN_) * H;
    for (int i = 0; i < E; i++) { uint e = i * 32 + lane; C[(r0 + e / H) * ld + c0 + e % H] = c[i][0]; }
  }
  // columns 16 j .. 16 j + 15 of this simdgroup's block, f32, into its own C: WM x 16
  void store_cols(tptr<float> C, uint ld, uint j, uint lane) {
    for (int i = 0; i < E; i++) for (int hf = 0; hf < 2; hf++) { uint e = i * 32 + lane, n = e % H + hf * H; if (n / 16 == j) C[(e / H) * ld + n % 16] = c[i][hf]; }
  }
  // the inverse: adds C to those columns
  void add_cols(tptr<float> C, uint ld, uint j, uint lane) {
    for (int i = 0; i < E; i++) for (int hf = 0; hf < 2; hf++) { uint e = i * 32 + lane, n = e % H + hf * H; if (n / 16 == j) c[i][hf] += C[(e / H) * ld + n % 16]; }
  }
  void scale(float f) { for (int i = 0; i < E; i++) { c[i][0] *= f; c[i][1] *= f; } }
  // row r times f8[8 r] (a row's factor stands there 8 times)
  void scale_rows(tptr<float> f8, uint sg, uint lane) {
    for (int i = 0; i < E; i++) { uint e = i * 32 + lane; float f = f8[((sg / GN_) * WM + e / H) * 8]; c[i][0] *= f; c[i][1] *= f; }
  }
};
