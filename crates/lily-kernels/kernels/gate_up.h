// One expert's gate and up rows at once: h[n] = silu(gate[n] x) * (up[n] x).

// How the simdgroups of a threadgroup share the inner rows: Sharers groups of Split simdgroups, Rows * Side rows each.
template <int Bits_, int Group, class S, int Rows, int Split, int Sharers> struct GateUp {
  enum { SgRows = Rows * S::Side, Tile = Sharers * SgRows, Part = 2 * Tile * Split };
  RowTile<Bits_, Group, S, Rows> gate, up;
  // rows from first + tile * Tile on, of a matrix of which `inner` rows from `first` belong to this expert
  FN_MEMBER void load(gptr<const uint> gw, gptr<const scale_t> gs, gptr<const scale_t> gb, gptr<const uint> uw, gptr<const scale_t> us, gptr<const scale_t> ub,
                      uint first, uint tile, uint inner, uint sg, uint lane) {
    const uint row = first + tile * Tile + sg / Split * SgRows, last = first + inner - 1;
    gate.load(gw, gs, gb, row, last, sg % Split, lane);
    up.load(uw, us, ub, row, last, sg % Split, lane);
  }
  // xs: the staged row; scale: what it is still to be multiplied with; part: Part floats
  FN_MEMBER void out(gptr<float> h, tptr<float> xs, float scale, tptr<float> part, uint tile, uint inner, uint tid, uint threads) {
    const uint sg = tid / 32, lane = tid % 32, split = sg % Split, sharer = sg / Split;
    InputSlice<Bits_, S> in;
    in.take(xs, split, lane);
    float g[Rows], u[Rows];
    gate.dot(in, g);
    up.dot(in, u);
    UNROLL for (int r = 0; r < Rows; r++)
      if (lane % S::Lanes == (uint)(r % S::Lanes)) {
        const uint i = (sharer * SgRows + r * S::Side + lane / S::Lanes) * Split + split;
        part[i] = g[r]; part[Tile * Split + i] = u[r];
      }
    tg_barrier();
    for (uint i = tid; i < Tile; i += threads) {
      float a = 0.0f, b = 0.0f;
      UNROLL for (int k = 0; k < Split; k++) { a += part[i * Split + k]; b += part[(Tile + i) * Split + k]; }
      if (tile * Tile + i < inner) h[tile * Tile + i] = silu(a * scale) * (b * scale);
    }
  }
};
