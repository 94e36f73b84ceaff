// Rows of bf16 results: 8 adjacent elements of a row, from element k (a multiple of 8) on.
// PERMUTED: rows that a product with register operands reads (kernels/cuda) hold every 128 elements in the order of its
// weight fragments: chunk 4 j + i (of 8 elements) has for t = 0..3 the pair (8 (4 t + j) + i, the same + 4).
FN void kd_put_permuted(gptr<bf16> row, uint k, uint a, uint b, uint c, uint d) {
  const uint t = (k >> 5) & 3, j = (k >> 3) & 3;
  gptr<bf16> to = row + ((k & ~127u) + j * 32 + t * 2);
  vstore(to, a); vstore(to + 8, b); vstore(to + 16, c); vstore(to + 24, d);
}
template <int Permuted> FN void store8(gptr<bf16> row, uint k, lptr<float> v) {
  if (Permuted) kd_put_permuted(row, k, pack_bf2(v[0], v[4]), pack_bf2(v[1], v[5]), pack_bf2(v[2], v[6]), pack_bf2(v[3], v[7]));
  else vstore(row + k, make_uint4(pack_bf2(v[0], v[1]), pack_bf2(v[2], v[3]), pack_bf2(v[4], v[5]), pack_bf2(v[6], v[7])));
}
template <int Permuted> FN void store8(gptr<bf16> row, uint k, uint4 v) {
  if (Permuted) kd_put_permuted(row, k, (v.x & 0xffffu) | (v.z << 16), (v.x >> 16) | (v.z & 0xffff0000u), (v.y & 0xffffu) | (v.w << 16), (v.y >> 16) | (v.w & 0xffff0000u));
  else vstore(row + k, v);
}
