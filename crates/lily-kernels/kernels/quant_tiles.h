// Quantised weights on their way into matrix tiles, 32 of a row at a time (quant.h: one chunk, one scale, one bias).

// weights 8 q .. 8 q + 7 of a chunk
template <int Bits> FN void dequant8(lref<Codes<Bits> > c, int q, float scale, float bias, lptr<float> o) {
  UNROLL for (int i = 0; i < 8; i++) o[i] = Bits == 16 ? bf16_at<Bits>(c, q * 8 + i) : fma_(code_at<Bits>(c, q * 8 + i), scale, bias);
}
FN uint4 kd_q4_tile8(uint w, bf16 s, bf16 b) { return q4_dequant8(w, s, b); }
template <class S> FN uint4 kd_q4_tile8(uint w, S s, S b) {
  float v[8];
  UNROLL for (int i = 0; i < 8; i++) v[i] = fma_(float((w >> (4 * i)) & 15u), float(s), float(b));
  return make_uint4(pack_bf2(v[0], v[1]), pack_bf2(v[2], v[3]), pack_bf2(v[4], v[5]), pack_bf2(v[6], v[7]));
}
// a chunk into columns k8 * 8 ... of a tile's row
template <int Bits, class S> FN void tile_put32(tptr<bf16> t, uint row, uint k8, lref<Codes<Bits> > c, S scale, S bias) {
  UNROLL for (int q = 0; q < 4; q++) {
    if (Bits == 4) tile_put8(t, row, k8 + q, kd_q4_tile8(c.w[q % Bits], scale, bias));
    else if (Bits == 16) tile_put8(t, row, k8 + q, make_uint4(c.w[(q * 4) % Bits], c.w[(q * 4 + 1) % Bits], c.w[(q * 4 + 2) % Bits], c.w[(q * 4 + 3) % Bits]));
    else {
      float v[8];
      dequant8<Bits>(c, q, float(scale), float(bias), v);
      tile_put8(t, row, k8 + q, make_uint4(pack_bf2(v[0], v[1]), pack_bf2(v[2], v[3]), pack_bf2(v[4], v[5]), pack_bf2(v[6], v[7])));
    }
  }
}
