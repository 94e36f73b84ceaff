// The random numbers of sampling: Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011), keyed by the seed, counted by token id and
// choice: each device makes the same ones without shared state. lily-engine's `Sampler` documents the keying.
struct Words4 { uint w[4]; };
FN Words4 philox(uint c0, uint c1, uint c2, uint c3, uint k0, uint k1) {
  UNROLL for (int round = 0; round < 10; round++) {
    const uint h0 = umulhi(c0, 0xD2511F53u), l0 = c0 * 0xD2511F53u, h1 = umulhi(c2, 0xCD9E8D57u), l1 = c2 * 0xCD9E8D57u;
    c0 = h1 ^ c1 ^ k0; c1 = l1; c2 = h0 ^ c3 ^ k1; c3 = l0;
    k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
  }
  Words4 r; r.w[0] = c0; r.w[1] = c1; r.w[2] = c2; r.w[3] = c3;
  return r;
}
