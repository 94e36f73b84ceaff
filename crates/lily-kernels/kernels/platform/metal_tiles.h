// Matrix tiles of the dialect on Metal: simdgroup_matrix over threadgroup memory. The emulator runs this very text.
// --- matrix tiles: row-major, 8 values of padding against bank conflicts
#define KD_LD 72
#define TG_TILE(name, ROWS) TG_ARRAY(bf16, name, (ROWS) * KD_LD)
FN uint tile_at(uint row, uint k8) { return row * KD_LD + k8 * 8; }      // where those 8 values stand
FN void tile_put8(tptr<bf16> t, uint row, uint k8, uint4 v) { vstore(t + (row * KD_LD + k8 * 8), v); }
#define RESULT_LD 68                       // floats between rows of a tile of results, 64 each
#define tile_barrier tg_barrier
#define tile_wait()
template <int TM_, int TN_, int GM_, int GN_> struct tg_acc {
  enum { WM = TM_ / GM_, WN = TN_ / GN_, MB = WM / 8, NB = WN / 8 };
  simdgroup_matrix<float, 8, 8> c[MB][NB];
  void zero() { UNROLL for (int i = 0; i < MB; i++) UNROLL for (int j = 0; j < NB; j++) c[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f); }
  void mma(tptr<const bf16> A, tptr<const bf16> B, uint sg, uint, uint rows) {
    const uint r0 = (sg / GN_) * WM, c0 = (sg % GN_) * WN;
    UNROLL for (int k = 0; k < 8; k++) {
      simdgroup_matrix<bf16, 8, 8> a, b[NB];
      UNROLL for (int j = 0; j < NB; j++) simdgroup_load(b[j], B + (c0 + j * 8) * KD_LD + k * 8, KD_LD, ulong2(0), true);
      UNROLL for (int i = 0; i < MB; i++) if (r0 + i * 8 < rows) {
        simdgroup_load(a, A + (r0 + i * 8) * KD_LD + k * 8, KD_LD);
        UNROLL for (int j = 0; j < NB; j++) simdgroup_multiply_accumulate(c[i][j], a, b[j], c[i][j]);
      }
    }
  }
  template <class F> void fold(F f) { UNROLL for (int i = 0; i < MB; i++) UNROLL for (int j = 0; j < NB / 2; j++) UNROLL for (int e = 0; e < 2; e++) c[i][j].thread_elements()[e] = f(c[i][j].thread_elements()[e], c[i][j + NB / 2].thread_elements()[e]); }
  // As f32: nothing says that a matrix of bf16 lies in the lanes as one of f32 does, so that it could be rounded here.
  void store_left(tptr<float> C, uint ld, uint sg, uint) {
    const uint r0 = (sg / GN_) * WM, c0 = (sg % GN_) * (WN / 2);
    UNROLL for (int i = 0; i < MB; i++) UNROLL for (int j = 0; j < NB / 2; j++) simdgroup_store(c[i][j], C + (r0 + i * 8) * ld + c0 + j * 8, ld);
  }
  // columns 16 j .. 16 j + 15 of this simdgroup's block, f32, into its own C: WM x 16
  void store_cols(tptr<float> C, uint ld, uint j, uint) {
    UNROLL for (int i = 0; i < MB; i++) UNROLL for (int h = 0; h < 2; h++) simdgroup_store(c[i][2 * j + h], C + i * 8 * ld + h * 8, ld);
  }
  // the inverse: adds C to those columns
  void add_cols(tptr<const float> C, uint ld, uint j, uint) {
    UNROLL for (int i = 0; i < MB; i++) UNROLL for (int h = 0; h < 2; h++) {
      simdgroup_matrix<float, 8, 8> f;
      simdgroup_load(f, C + i * 8 * ld + h * 8, ld);
      UNROLL for (int e = 0; e < 2; e++) c[i][2 * j + h].thread_elements()[e] += f.thread_elements()[e];
    }
  }
  void scale(float f) { UNROLL for (int i = 0; i < MB; i++) UNROLL for (int j = 0; j < NB; j++) UNROLL for (int e = 0; e < 2; e++) c[i][j].thread_elements()[e] *= f; }
  // row r times f8[8 r] (a row's factor stands there 8 times: no lane needs to know which elements are its own)
  void scale_rows(tptr<const float> f8, uint sg, uint) {
    UNROLL for (int i = 0; i < MB; i++) {
      simdgroup_matrix<float, 8, 8> f;
      simdgroup_load(f, f8 + ((sg / GN_) * WM + i * 8) * 8, 8);
      UNROLL for (int j = 0; j < NB; j++) UNROLL for (int e = 0; e < 2; e++) c[i][j].thread_elements()[e] *= f.thread_elements()[e];
    }
  }
};
