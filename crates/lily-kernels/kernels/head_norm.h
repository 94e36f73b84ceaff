// A query or key head of 256 in a simdgroup: lane l holds dims 8 l to 8 l + 7. Normed, then rotated: the pair of dim i is
// i + ROTARY / 2 (half-split), which ROTARY / 16 lanes further on holds.
#define HEAD_DIM 256
#define PAIR_LANES (ROTARY / 16)        // a power of two

struct Angles { float c[8], s[8]; };
// cosines and sines of a lane's dims; 1 and 0 beyond the rotary dims
FN Angles head_angles(gptr<const uint> rotary, uint position, uint lane) {
  Angles a;
  UNROLL for (int i = 0; i < 8; i++) { a.c[i] = 1.0f; a.s[i] = 0.0f; }
  if (lane < 2 * PAIR_LANES) UNROLL for (int i = 0; i < 8; i++) {
    const float angle = rotary_angle(rotary, lane % PAIR_LANES * 8 + i, position);
    a.c[i] = fcos(angle); a.s[i] = lane < PAIR_LANES ? -fsin(angle) : fsin(angle);
  }
  return a;
}
// v = rotate(rms_norm(x, gain))
FN void head_norm_rotate(lptr<float> v, gptr<const float> x, gptr<const float> gain, lref<Angles> a, float eps, uint lane) {
  float g[8], ss = 0.0f;
  load8(x + lane * 8, v);
  load8(gain + lane * 8, g);
  UNROLL for (int i = 0; i < 8; i++) ss = fma_(v[i], v[i], ss);
  ss = simd_sum(ss);
  const float r = frsqrt(ss * (1.0f / HEAD_DIM) + eps);
  UNROLL for (int i = 0; i < 8; i++) v[i] = v[i] * r * g[i];
  UNROLL for (int i = 0; i < 8; i++) { const float other = simd_shuffle_xor(v[i], PAIR_LANES); v[i] = fma_(v[i], a.c[i], other * a.s[i]); }
}
FN uint4 pack8(lptr<float> v) { return make_uint4(pack_bf2(v[0], v[1]), pack_bf2(v[2], v[3]), pack_bf2(v[4], v[5]), pack_bf2(v[6], v[7])); }
