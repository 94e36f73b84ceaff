// Matrix tiles of the dialect on CUDA: mma.sync, or wgmma on Hopper (KD_WGMMA, sm_90a).
// --- matrix tiles: rows of 128 bytes, 16-byte chunks XOR-swizzled by row (serves ldmatrix and wgmma's 128B swizzle)
#define TG_TILE(name, ROWS) __shared__ __align__(1024) bf16 name[(ROWS) * 64]
FN uint tile_at(uint row, uint k8) { return row * 64 + ((k8 ^ (row & 7u)) * 8); }      // where those 8 values stand
FN void tile_put8(bf16* t, uint row, uint k8, uint4 v) { *(uint4*)(t + row * 64 + ((k8 ^ (row & 7u)) * 8)) = v; }
#define RESULT_LD 64                       // floats between rows of a tile of results
#ifndef KD_WGMMA
FN void tile_barrier() { __syncthreads(); }
FN void tile_wait() {}
FN uint kd_transpose8(uint x) { uint r; asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(x)); return r; }
FN void kd_ldm4(uint* r, uint a) { asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a)); }
FN void kd_mma(float* c, const uint* a, const uint* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <int TM_, int TN_, int GM_, int GN_> struct tg_acc {
  static constexpr int WM = TM_ / GM_, WN = TN_ / GN_, MB = WM / 16, NB = WN / 8;
  float c[MB][NB][4];
  FN void zero() { UNROLL for (int i = 0; i < MB; i++) UNROLL for (int j = 0; j < NB; j++) UNROLL for (int k = 0; k < 4; k++) c[i][j][k] = 0.0f; }
  FN void mma(const bf16* A, const bf16* B, uint sg, uint lane, uint rows) {
    const uint r0 = (sg / GN_) * WM, c0 = (sg % GN_) * WN;
    const uint a0 = (uint)__cvta_generic_to_shared(A), b0 = (uint)__cvta_generic_to_shared(B);
    const uint ar = r0 + (lane & 15u), ac = lane >> 4, br = c0 + (lane & 7u) + ((lane >> 4) << 3), bc = (lane >> 3) & 1u;
    UNROLL for (int k = 0; k < 4; k++) {
      uint b[NB][2];
      UNROLL for (int j = 0; j < NB; j += 2) { uint r = br + j * 8; kd_ldm4(b[j], b0 + r * 128 + (((2 * k + bc) ^ (r & 7u)) << 4)); }
      UNROLL for (int i = 0; i < MB; i++) if (r0 + i * 16 < rows) {
        uint a[4], r = ar + i * 16; kd_ldm4(a, a0 + r * 128 + (((2 * k + ac) ^ (r & 7u)) << 4));
        UNROLL for (int j = 0; j < NB; j++) kd_mma(c[i][j], a, b[j]);
      }
    }
  }
  // column j of the left half becomes f(left, right): the tile's columns are [left | right] within each simdgroup's WN
  template <class F> FN void fold(F f) { UNROLL for (int i = 0; i < MB; i++) UNROLL for (int j = 0; j < NB / 2; j++) UNROLL for (int k = 0; k < 4; k++) c[i][j][k] = f(c[i][j][k], c[i][j + NB / 2][k]); }
  FN void store_left(float* C, uint ld, uint sg, uint lane) {         // C: TM_ x TN_/2
    uint r0 = (sg / GN_) * WM + (lane >> 2), c0 = (sg % GN_) * (WN / 2) + (lane & 3u) * 2;
    UNROLL for (int i = 0; i < MB; i++) UNROLL for (int j = 0; j < NB / 2; j++) {
      *(float2*)(C + (r0 + i * 16) * ld + c0 + j * 8) = make_float2(c[i][j][0], c[i][j][1]);
      *(float2*)(C + (r0 + i * 16 + 8) * ld + c0 + j * 8) = make_float2(c[i][j][2], c[i][j][3]);
    }
  }
  // columns 16 j .. 16 j + 15 of this simdgroup's block, f32, into its own C: WM x 16
  FN void store_cols(float* C, uint ld, uint j, uint lane) {
    UNROLL for (int i = 0; i < MB; i++) UNROLL for (int h = 0; h < 2; h++) {
      float* to = C + (i * 16 + (lane >> 2)) * ld + h * 8 + (lane & 3u) * 2;
      *(float2*)to = make_float2(c[i][2 * j + h][0], c[i][2 * j + h][1]);
      *(float2*)(to + 8 * ld) = make_float2(c[i][2 * j + h][2], c[i][2 * j + h][3]);
    }
  }
  // the inverse: adds C to those columns
  FN void add_cols(const float* C, uint ld, uint j, uint lane) {
    UNROLL for (int i = 0; i < MB; i++) UNROLL for (int h = 0; h < 2; h++) {
      const float* from = C + (i * 16 + (lane >> 2)) * ld + h * 8 + (lane & 3u) * 2;
      c[i][2 * j + h][0] += from[0]; c[i][2 * j + h][1] += from[1]; c[i][2 * j + h][2] += from[8 * ld]; c[i][2 * j + h][3] += from[8 * ld + 1];
    }
  }
  FN void scale(float f) { UNROLL for (int i = 0; i < MB; i++) UNROLL for (int j = 0; j < NB; j++) UNROLL for (int k = 0; k < 4; k++) c[i][j][k] *= f; }
  // row r times f8[8 r] (a row's factor stands there 8 times)
  FN void scale_rows(const float* f8, uint sg, uint lane) {
    UNROLL for (int i = 0; i < MB; i++) {
      const uint r = (sg / GN_) * WM + i * 16 + (lane >> 2);
      const float a = f8[r * 8], b = f8[r * 8 + 64];
      UNROLL for (int j = 0; j < NB; j++) { c[i][j][0] *= a; c[i][j][1] *= a; c[i][j][2] *= b; c[i][j][3] *= b; }
    }
  }
};
#else   // Hopper wgmma behind the same interface (sm_90a). Each warpgroup owns 64 rows x TN_; needs SGM*SGN*16 == BM.
FN void tile_barrier() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); __syncthreads(); }
FN void tile_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
FN unsigned long long kd_desc(uint addr) { return (unsigned long long)((addr & 0x3ffffu) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62); }
FN void kd_wg128(float (*c)[4], unsigned long long a, unsigned long long b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, 1, 1, 1, 0, 0;"
    : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]), "+f"(c[1][2]), "+f"(c[1][3]), "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]), "+f"(c[3][0]), "+f"(c[3][1]), "+f"(c[3][2]), "+f"(c[3][3]), "+f"(c[4][0]), "+f"(c[4][1]), "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]), "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]), "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]), "+f"(c[7][0]), "+f"(c[7][1]), "+f"(c[7][2]), "+f"(c[7][3]), "+f"(c[8][0]), "+f"(c[8][1]), "+f"(c[8][2]), "+f"(c[8][3]), "+f"(c[9][0]), "+f"(c[9][1]), "+f"(c[9][2]), "+f"(c[9][3]), "+f"(c[10][0]), "+f"(c[10][1]), "+f"(c[10][2]), "+f"(c[10][3]), "+f"(c[11][0]), "+f"(c[11][1]), "+f"(c[11][2]), "+f"(c[11][3]), "+f"(c[12][0]), "+f"(c[12][1]), "+f"(c[12][2]), "+f"(c[12][3]), "+f"(c[13][0]), "+f"(c[13][1]), "+f"(c[13][2]), "+f"(c[13][3]), "+f"(c[14][0]), "+f"(c[14][1]), "+f"(c[14][2]), "+f"(c[14][3]), "+f"(c[15][0]), "+f"(c[15][1]), "+f"(c[15][2]), "+f"(c[15][3]) : "l"(a), "l"(b));
}
template <int TM_, int TN_, int GM_, int GN_> struct tg_acc {
  static constexpr int NB = TN_ / 8;
  static_assert(GM_ * GN_ * 16 == TM_ && TN_ == 128, "one warpgroup per 64 rows x 128 columns");
  float c[NB][4];
  FN void zero() { UNROLL for (int j = 0; j < NB; j++) UNROLL for (int k = 0; k < 4; k++) c[j][k] = 0.0f; }
  FN void mma(const bf16* A, const bf16* B, uint sg, uint, uint rows) {
    uint a0 = (uint)__cvta_generic_to_shared(A) + (sg >> 2) * 64 * 128, b0 = (uint)__cvta_generic_to_shared(B);
    if (TM_ > 64 && (sg >> 2) * 64 >= rows) return;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    UNROLL for (int k = 0; k < 4; k++) kd_wg128(c, kd_desc(a0 + k * 32), kd_desc(b0 + k * 32));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  }
  template <class F> FN void fold(F f) { UNROLL for (int j = 0; j < NB / 2; j++) UNROLL for (int k = 0; k < 4; k++) c[j][k] = f(c[j][k], c[j + NB / 2][k]); }
  FN void store_left(float* C, uint ld, uint sg, uint lane) {
    uint r0 = sg * 16 + (lane >> 2), c0 = (lane & 3u) * 2;
    UNROLL for (int j = 0; j < NB / 2; j++) { *(float2*)(C + r0 * ld + c0 + j * 8) = make_float2(c[j][0], c[j][1]); *(float2*)(C + (r0 + 8) * ld + c0 + j * 8) = make_float2(c[j][2], c[j][3]); }
  }
};
#endif
