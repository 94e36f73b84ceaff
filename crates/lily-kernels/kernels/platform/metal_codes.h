// 4-bit codes on Metal: sum_i x[i] * code[i] == q4_dot8(w, xs, 0) - off, where off = q4_prescale(x -> xs). The codes stay in place,
// mask only, and x is divided by 16^i, which is exact: no shifts. The emulator runs this very text.
FN float q4_prescale(lptr<float> x) { UNROLL for (int i = 1; i < 8; i++) x[i] *= 1.0f / float(1u << (4 * i)); return 0.0f; }
FN float q4_dot8(uint w, lptr<const float> xs, float acc) { UNROLL for (int i = 0; i < 8; i++) acc = fma_(xs[i], float(w & (15u << (4 * i))), acc); return acc; }
FN uint4 q4_dequant8(uint w, bf16 s_, bf16 b_) {
  float s = float(s_), b = float(b_);
#define KD_Q(i) fma_(float((w >> (4 * i)) & 15u), s, b)
  return make_uint4(pack_bf2(KD_Q(0), KD_Q(1)), pack_bf2(KD_Q(2), KD_Q(3)), pack_bf2(KD_Q(4), KD_Q(5)), pack_bf2(KD_Q(6), KD_Q(7)));
#undef KD_Q
}
