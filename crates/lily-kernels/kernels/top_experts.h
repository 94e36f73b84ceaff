// The router's choice, made again by one simdgroup of each threadgroup that needs it: cheaper than a level of its own.
// ids: the TOPK experts with the greatest logits (of equal ones the lowest id first); weights: their shares of the softmax,
// renormalised to sum to one if RENORMALISE.
template <int Experts, int Topk, bool Renormalise> FN void choose_experts(gptr<const float> logits, tptr<uint> ids, tptr<float> weights, uint lane) {
  enum { Per = (Experts + 31) / 32 };
  uint key[Per];
  float best = 0.0f, total = 0.0f, mine = 0.0f;
  uint my_id = 0;
  UNROLL for (int i = 0; i < Per; i++) { const uint e = i * 32 + lane; key[i] = e < Experts ? order_key(logits[e]) : 0u; }
  UNROLL for (int k = 0; k < Topk; k++) {
    uint local = 0;
    UNROLL for (int i = 0; i < Per; i++) local = umax_(local, key[i]);
    const uint top = simd_max(local);
    uint id = 0xffffffffu;
    UNROLL for (int i = Per - 1; i >= 0; i--) if (key[i] == top) id = i * 32 + lane;
    id = simd_min(id);
    if (k == 0) {
      best = key_value(top);
      if (!Renormalise) {
        float t = 0.0f;
        UNROLL for (int i = 0; i < Per; i++) if (key[i] != 0u) t += fexp(key_value(key[i]) - best);
        total = simd_sum(t);
      }
    }
    UNROLL for (int i = 0; i < Per; i++) if (id == (uint)(i * 32) + lane) key[i] = 0u;
    const float w = fexp(key_value(top) - best);
    if (Renormalise) total += w;
    if (lane == (uint)k) { mine = w; my_id = id; }
  }
  if (lane < Topk) { ids[lane] = my_id; weights[lane] = mine / total; }
}
