// 4-bit weights times rows of a chunk on Hopper, for the files under cuda/.  Weights are the A operand of wgmma and never touch
// shared memory: each lane loads its codes in fragment order (K permuted alike in the rows, rows.h) and dequantises them in
// registers.  Rows are the n side, Blocks blocks of 8, copied asynchronously into three stages of WG_ROWS rows x 128 of K.
// A threadgroup is two warpgroups of 64 weight rows each over the same rows of x.
#ifdef LIMIT
#define WG_ROWS LIMIT                    // rows of x at most: 32, 64 or 128
#else
#define WG_ROWS 128
#endif
#define WG_STAGE (WG_ROWS * 128)         // elements of a stage: two tiles of 64 columns
#define WG_LD (128 + 4)                  // floats between rows of the results
struct WgCodes { uint4 w[2]; bf16 s[2], b[2]; };    // of weight rows g and g + 8
struct WgRows { uint w[2], g[2]; };                 // where this lane's codes and scales of those rows begin
struct WgThread { uint tid, sg, lane; };

// `row` of the weight matrix for g, `other` for g + 8; Width input width
template <int Width> FN WgRows wg_weight_rows(uint row, uint other, uint lane) {
  const uint t = lane & 3;
  WgRows r;
  r.w[0] = row * (Width / 8) + t * 4; r.w[1] = other * (Width / 8) + t * 4;
  r.g[0] = row * (Width / 64) + (t >> 1); r.g[1] = other * (Width / 64) + (t >> 1);
  return r;
}

// acc: this warpgroup's 64 weight rows x Blocks * 8 rows of x.  x_at[i]: element of x where row tid / 16 + 16 i begins, plus tid % 16 * 8.
template <int Width, int Blocks> FN void wg_multiply(float (*acc)[4], tptr<bf16> xs, gptr<const bf16> x, lptr<uint> x_at, gptr<const uint> w, gptr<const bf16> scales, gptr<const bf16> biases,
                                              WgRows at, WgThread th) {
  const uint row = th.tid / 16, chunk = th.tid % 16;
  const uint put = (chunk >> 3) * (WG_ROWS * 64) + row * 64 + ((chunk & 7) ^ (row & 7)) * 8;
  UNROLL for (int i = 0; i < Blocks; i++) UNROLL for (int k = 0; k < 4; k++) acc[i][k] = 0.0f;
#define WG_FETCH_CODES(F, kb) UNROLL for (int r = 0; r < 2; r++) { \
    F.w[r] = vload_stream<uint4>(w + (at.w[r] + (kb) * 16)); F.s[r] = scales[at.g[r] + (kb) * 2]; F.b[r] = biases[at.g[r] + (kb) * 2]; }
#define WG_FETCH_ROWS(kb, stage) { UNROLL for (int i = 0; i < Blocks / 2; i++) copy16_async(xs + ((stage) * WG_STAGE + put + i * (16 * 64)), x + (x_at[i] + (kb) * 128)); async_commit(); }
  enum { Ahead = 1 };                                       // steps that codes are on their way
  WgCodes codes[Ahead + 1];
  UNROLL for (int n = 0; n < Ahead; n++) if (n < Width / 128) { WG_FETCH_CODES(codes[n], n) }
  WG_FETCH_ROWS(0, 0)
  uint stage = 0;
  for (uint kb = 0; kb < Width / 128; kb++) {
    const uint following = stage == 2 ? 0 : stage + 1;    // read last in step kb - 2: every warpgroup has waited for that
    async_wait_all();
    wg_tiles_written();
    tg_barrier();
    if (kb + 1 < Width / 128) WG_FETCH_ROWS(kb + 1, following)
    if (kb + Ahead < Width / 128) { WG_FETCH_CODES(codes[Ahead], kb + Ahead) }
    const WgCodes cur = codes[0];
    uint s2[2], b2[2];
    UNROLL for (int r = 0; r < 2; r++) { s2[r] = kd_bf2(cur.s[r].v); b2[r] = kd_bf2(cur.b[r].v); }
    UNROLL for (int j = 0; j < 4; j++) {
      wg_wait<1>();                                       // two products ago: its operands are overwritten now
      uint a[2][4];
      UNROLL for (int r = 0; r < 2; r++) {
        const uint u = j == 0 ? cur.w[r].x : j == 1 ? cur.w[r].y : j == 2 ? cur.w[r].z : cur.w[r].w;
        UNROLL for (int q = 0; q < 4; q++) a[r][q] = kd_dq2(u >> (4 * q), s2[r], b2[r]);
      }
      const uint low[4] = {a[0][0], a[1][0], a[0][1], a[1][1]}, high[4] = {a[0][2], a[1][2], a[0][3], a[1][3]};
      const uint tile = (stage * WG_STAGE + (j >> 1) * (WG_ROWS * 64)) * 2 + (j & 1) * 64;
      wg_fence();
      wg_rs<Blocks * 8, 0>::mma(acc, low, wg_k_major(xs, tile));
      wg_rs<Blocks * 8, 0>::mma(acc, high, wg_k_major(xs, tile + 32));
      wg_commit();
    }
    UNROLL for (int n = 0; n < Ahead; n++) codes[n] = codes[n + 1];
    stage = following;
  }
  wg_wait<0>();
  tg_barrier();
#undef WG_FETCH_CODES
#undef WG_FETCH_ROWS
}

// The results, turned: f32 [row of x][WG_LD], weight row of the threadgroup last.  Over the stages.
template <int Blocks> FN void wg_results(float (*acc)[4], tptr<bf16> xs, WgThread th) {
  const uint g = th.lane >> 2, t = th.lane & 3;
  UNROLL for (int i = 0; i < Blocks; i++) UNROLL for (int k = 0; k < 4; k++)
    vstore(xs + ((i * 8 + 2 * t + (k & 1)) * WG_LD + th.sg * 16 + g + (k >> 1) * 8) * 2, acc[i][k]);
  tg_barrier();
}
// 8 results of a row
FN void wg_result8(tptr<bf16> xs, uint row, uint c, lptr<float> v) {
  const float4 lo = vload<float4>(xs + (row * WG_LD + c) * 2), hi = vload<float4>(xs + (row * WG_LD + c + 4) * 2);
  v[0] = lo.x; v[1] = lo.y; v[2] = lo.z; v[3] = lo.w; v[4] = hi.x; v[5] = hi.y; v[6] = hi.z; v[7] = hi.w;
}
