// The tensor operations of metal_tensor.h in the emulator: plain loops over checked memory. Which thread holds which element of a
// result follows no pattern that a kernel could lean on.
#define TENSOR_LD 64
#define TENSOR_TILE(name, ROWS) TG_ARRAY(bf16, name, (ROWS) * TENSOR_LD)
inline uint tile_at(uint row, uint k8) { return row * TENSOR_LD + k8 * 8; }
inline void tile_put8(tptr<bf16> t, uint row, uint k8, uint4 v) { vstore(t + tile_at(row, k8), v); }
namespace kd {
template <int Held> struct TensorView { tptr<const bf16> t; };
template <int Rows, int Cols, int SGS> struct TensorAcc {
  static constexpr uint THREADS = SGS * 32, COUNT = Rows * Cols / THREADS, WIDTH = Cols;
  static_assert((Rows * Cols & (Rows * Cols - 1)) == 0 && Rows * Cols % THREADS == 0, "a tile of a power of two of elements");
  float v[COUNT];
  TensorAcc() { for (uint i = 0; i < COUNT; i++) v[i] = 0.0f; }
  TensorAcc(const TensorAcc&) = delete;
  float& operator[](uint i) { return v[i]; }
  uint at(uint i) const { return ((i * THREADS + cur->f->tid) * 2654435761u + 40503u) & (Rows * Cols - 1); }   // an odd factor: each element once
};
template <int Rows, int Cols, bool TURNED, int SGS> struct TensorOp {
  static_assert(Rows % 16 == 0 && Cols % 16 == 0, "sizes are multiples of 16");
  template <int RA, int RB> void run(const TensorView<RA>& a, const TensorView<RB>& b, TensorAcc<Rows, Cols, SGS>& acc, int line) const {
    static_assert(RA == Rows && RB == (TURNED ? Cols : TENSOR_LD) && (TURNED || Cols == TENSOR_LD), "operands of the operation's shape");
    if (cur->threads != SGS * 32) fail(DIVERGENCE, "a tensor operation of %d simdgroups in a threadgroup of %u threads, at line %d", SGS, cur->threads, line);
    meet(line, OPERATION);                                      // all simdgroups of the scope, uniformly
    for (uint i = 0; i < acc.COUNT; i++) {
      const uint e = acc.at(i), r = e / Cols, c = e % Cols;
      float s = acc.v[i];
      for (uint k = 0; k < TENSOR_LD; k += 8) {
        bf16 x[8], y[8];
        const uint4 p = vload<uint4>(a.t + (r * TENSOR_LD + k)); memcpy(x, &p, 16);
        if (TURNED) { const uint4 q = vload<uint4>(b.t + (c * TENSOR_LD + k)); memcpy(y, &q, 16); }
        else for (uint j = 0; j < 8; j++) y[j] = b.t[(k + j) * TENSOR_LD + c];
        for (uint j = 0; j < 8; j++) s += float(x[j]) * float(y[j]);
      }
      acc.v[i] = s;
    }
  }
};
}
#define TENSOR_OP(op, M_, N_, TURNED, SGS) using op##_shape = kd::TensorOp<M_, N_, TURNED, SGS>; using op##_acc = kd::TensorAcc<M_, N_, SGS>; op##_shape op
#define TENSOR_VIEW(name, tile, ROWS) kd::TensorView<ROWS> name{tile}
#define TENSOR_ACC(acc, op, a, b) op##_acc acc
#define TENSOR_RUN(op, a, b, acc) op.run(a, b, acc, __LINE__)
#define TENSOR_EACH(acc, i, r, c, ...) for (uint i = 0; i < acc.COUNT; i++) { const uint kd_at = acc.at(i), r = kd_at / acc.WIDTH, c = kd_at % acc.WIDTH; __VA_ARGS__ }
