// Products of quantised matrices with one row of activations. (Template parameters are CamelCase: constants are macros.)
//
// The row goes through threadgroup memory once ("staged"), normed and scaled on the way; then each lane keeps its chunks of
// it in registers over all rows of the matrix that its simdgroup walks. A matrix row is read by Lanes adjacent lanes, a chunk
// of 32 codes each per step. Narrow matrices have Side rows side by side in a simdgroup; Split simdgroups share a wide row.

// 36 floats for each 32: lanes that read adjacent chunks as float4 meet different banks.
#define STAGED(width) ((width) / 32 * 36)
FN uint staged(uint k) { return (k >> 5) * 36 + (k & 31u); }

template <int Width_, int Split_> struct Span {
  enum {
    Width = Width_, Split = Split_, Chunks = Width_ / 32,
    Lanes = Chunks > 16 ? 32 : Chunks > 8 ? 16 : Chunks > 4 ? 8 : Chunks > 2 ? 4 : Chunks > 1 ? 2 : 1,
    Side = 32 / Lanes,
    Steps = (Chunks + Lanes * Split_ - 1) / (Lanes * Split_),
    Whole = Chunks == Lanes * Split_ * Steps          // no lane is ever without a chunk
  };
};

// Staging by Threads threads, all loads in flight before the first is used. Passes: how often all threads go.
template <int Width, int Threads> struct Stage { enum { Passes = (Width + Threads * 4 - 1) / (Threads * 4) }; };

// Stages x [Width], times a gain. The sum of squares of x goes to sums, one value per simdgroup; a barrier must follow.
template <int Width, int Threads> FN void stage_normed(tptr<float> xs, tptr<float> sums, gptr<const float> x, gptr<const float> gain, uint tid) {
  enum { Passes = Stage<Width, Threads>::Passes };
  float4 v[Passes], g[Passes];
  float ss = 0.0f;
  UNROLL for (int n = 0; n < Passes; n++) {
    const uint i = (n * Threads + tid) * 4;
    v[n] = make_float4(0.0f, 0.0f, 0.0f, 0.0f); g[n] = v[n];
    if (i < Width) { v[n] = vload<float4>(x + i); g[n] = vload<float4>(gain + i); }
  }
  UNROLL for (int n = 0; n < Passes; n++) {
    const uint i = (n * Threads + tid) * 4;
    const float4 a = v[n], b = g[n];
    ss = fma_(a.x, a.x, ss); ss = fma_(a.y, a.y, ss); ss = fma_(a.z, a.z, ss); ss = fma_(a.w, a.w, ss);
    if (i < Width) vstore(xs + staged(i), make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w));
  }
  ss = simd_sum(ss);
  if (tid % 32 == 0) sums[tid / 32] = ss;
}
// 1 / rms of the row that stage_normed saw
template <int Width, int Threads> FN float staged_scale(tptr<float> sums, float eps) {
  float ss = 0.0f;
  UNROLL for (int i = 0; i < Threads / 32; i++) ss += sums[i];
  return frsqrt(ss * (1.0f / Width) + eps);
}
template <int Width, int Threads> FN void stage_plain(tptr<float> xs, gptr<const float> x, uint tid) {
  enum { Passes = Stage<Width, Threads>::Passes };
  float4 v[Passes];
  UNROLL for (int n = 0; n < Passes; n++) { const uint i = (n * Threads + tid) * 4; if (i < Width) v[n] = vload<float4>(x + i); }
  UNROLL for (int n = 0; n < Passes; n++) { const uint i = (n * Threads + tid) * 4; if (i < Width) vstore(xs + staged(i), v[n]); }
}
// Stages rms_norm(x, gain) * silu(z), the norm taken over each Head elements (at most 128, a power of two).
template <int Width, int Threads, int Head> FN void stage_gated(tptr<float> xs, gptr<const float> x, gptr<const float> z, gptr<const float> gain, float eps, uint tid) {
  enum { Passes = Stage<Width, Threads>::Passes };
  float4 v[Passes], u[Passes];
  UNROLL for (int n = 0; n < Passes; n++) {
    const uint i = (n * Threads + tid) * 4;
    v[n] = make_float4(0.0f, 0.0f, 0.0f, 0.0f); u[n] = v[n];
    if (i < Width) { v[n] = vload<float4>(x + i); u[n] = vload<float4>(z + i); }
  }
  const float4 g = vload<float4>(gain + tid * 4 % Head);    // Threads * 4 is a multiple of Head
  UNROLL for (int n = 0; n < Passes; n++) {
    const uint i = (n * Threads + tid) * 4;
    const float4 a = v[n], b = u[n];
    const float ss = simd_sum_w<Head / 4>(a.x * a.x + a.y * a.y + a.z * a.z + a.w * a.w), r = frsqrt(ss * (1.0f / Head) + eps);
    if (i < Width) vstore(xs + staged(i), make_float4(a.x * r * g.x * silu(b.x), a.y * r * g.y * silu(b.y), a.z * r * g.z * silu(b.z), a.w * r * g.w * silu(b.w)));
  }
}

// A lane's chunks of the staged row.
template <int Bits, class S> struct InputSlice {
  float x[S::Steps][32], sum[S::Steps], off[S::Steps];
  FN_MEMBER void take(tptr<float> xs, uint split, uint lane) {
    UNROLL for (int s = 0; s < S::Steps; s++) {
      const uint c = (s * S::Split + split) * S::Lanes + lane % S::Lanes;
      const bool in = S::Whole || c < (uint)S::Chunks;
      float t = 0.0f;
      UNROLL for (int j = 0; j < 32; j += 4) {
        float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (in) v = vload<float4>(xs + (c * 36 + j));
        x[s][j] = v.x; x[s][j + 1] = v.y; x[s][j + 2] = v.z; x[s][j + 3] = v.w;
        t += (v.x + v.y) + (v.z + v.w);
      }
      sum[s] = t;
      off[s] = prescale32<Bits>(x[s]);
    }
  }
  // the same from a row in device memory, for a simdgroup that reads it once
  FN_MEMBER void take_row(gptr<const float> row, uint lane) {
    UNROLL for (int s = 0; s < S::Steps; s++) {
      const uint c = s * S::Lanes + lane % S::Lanes;
      const bool in = S::Whole || c < (uint)S::Chunks;
      float t = 0.0f;
      UNROLL for (int j = 0; j < 32; j += 4) {
        float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (in) v = vload<float4>(row + (c * 32 + j));
        x[s][j] = v.x; x[s][j + 1] = v.y; x[s][j + 2] = v.z; x[s][j + 3] = v.w;
        t += (v.x + v.y) + (v.z + v.w);
      }
      sum[s] = t;
      off[s] = prescale32<Bits>(x[s]);
    }
  }
};

// A lane's chunks of Rows * Side rows of a matrix, from `row` on; rows past `last` repeat it.
template <int Bits, int Group, class S, int Rows> struct RowTile {
  Codes<Bits> w[Rows][S::Steps];
  scale_t s[Rows][S::Steps], b[Rows][S::Steps];
  FN_MEMBER void load(gptr<const uint> codes, gptr<const scale_t> scales, gptr<const scale_t> biases, uint row, uint last, uint split, uint lane) {
    UNROLL for (int r = 0; r < Rows; r++) {
      const uint n = umin_(row + r * S::Side + lane / S::Lanes, last);
      UNROLL for (int i = 0; i < S::Steps; i++) {
        uint c = (i * S::Split + split) * S::Lanes + lane % S::Lanes;
        if (!S::Whole) c = umin_(c, S::Chunks - 1);
        w[r][i] = load_codes<Bits>(codes + (n * S::Chunks + c) * Bits);
        if (Bits != 16) { const uint g = n * (S::Width / Group) + c * 32 / Group; s[r][i] = scales[g]; b[r][i] = biases[g]; }
      }
    }
  }
  // this lane's part of each row's product
  FN_MEMBER void dot(lref<InputSlice<Bits, S>> in, lptr<float> y) {
    UNROLL for (int r = 0; r < Rows; r++) {
      float t = 0.0f;
      UNROLL for (int i = 0; i < S::Steps; i++) {
        const float d = dot32<Bits>(w[r][i], in.x[i]) - in.off[i];
        if (Bits == 16) t += d;
        else { t = fma_(float(s[r][i]), d, t); t = fma_(float(b[r][i]), in.sum[i], t); }
      }
      y[r] = simd_sum_w<S::Lanes>(t);
    }
  }
};
