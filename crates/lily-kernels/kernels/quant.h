// Affine quantised weights as they lie in memory: w = scale * code + bias, one scale and one bias per GROUP codes of a row.
// Work goes by chunks of 32 codes: a chunk is exactly BITS words whatever the width, and lies in one group. BITS 16 stands
// for unquantised bf16, whose words hold two weights each; it has no scales.
#if SCALE == 1
typedef f16 scale_t;
#elif SCALE == 2
typedef float scale_t;
#else
typedef bf16 scale_t;
#endif

template <int Bits> struct Codes { uint w[Bits]; };

template <int Bits> FN Codes<Bits> load_codes(gptr<const uint> p) {
  Codes<Bits> c;
  if (Bits % 4 == 0) {
    UNROLL for (int i = 0; i < Bits; i += 4) {
      const uint4 v = vload_stream<uint4>(p + i);
      c.w[i] = v.x; c.w[(i + 1) % Bits] = v.y; c.w[(i + 2) % Bits] = v.z; c.w[(i + 3) % Bits] = v.w;
    }
  } else if (Bits % 2 == 0) {
    UNROLL for (int i = 0; i < Bits; i += 2) { const uint2 v = vload_stream<uint2>(p + i); c.w[i] = v.x; c.w[(i + 1) % Bits] = v.y; }
  } else {
    UNROLL for (int i = 0; i < Bits; i++) c.w[i] = vload_stream<uint>(p + i);
  }
  return c;
}

// Code i of a chunk, as a number.
template <int Bits> FN float code_at(lref<Codes<Bits>> c, int i) {
  const int bit = i * Bits, word = bit / 32, shift = bit % 32;
  uint v = c.w[word % Bits] >> shift;
  if (shift + Bits > 32) v |= c.w[(word + 1) % Bits] << ((32 - shift) % 32);
  return float(v & ((1u << (Bits % 32)) - 1u));
}
// Weight i of an unquantised chunk.
template <int Bits> FN float bf16_at(lref<Codes<Bits>> c, int i) { return (i & 1) ? bf_hi(c.w[(i / 2) % Bits]) : bf_lo(c.w[(i / 2) % Bits]); }

// dot32(codes, x) - off is the sum of x[i] * code[i], where off = prescale32(x) has changed x to what suits the platform.
template <int Bits> FN float prescale32(lptr<float> x) {
  float off = 0.0f;
  if (Bits == 4) UNROLL for (int i = 0; i < 4; i++) off += q4_prescale(x + 8 * i);
  return off;
}
template <int Bits> FN float dot32(lref<Codes<Bits>> c, lptr<float> x) {
  float a = 0.0f, b = 0.0f;
  if (Bits == 4) {
    a = q4_dot8(c.w[0], x, 0.0f); b = q4_dot8(c.w[1 % Bits], x + 8, 0.0f);
    a = q4_dot8(c.w[2 % Bits], x + 16, a); b = q4_dot8(c.w[3 % Bits], x + 24, b);
  } else if (Bits == 16) {
    UNROLL for (int i = 0; i < 32; i += 2) { a = fma_(x[i], bf16_at<Bits>(c, i), a); b = fma_(x[i + 1], bf16_at<Bits>(c, i + 1), b); }
  } else {
    UNROLL for (int i = 0; i < 32; i += 2) { a = fma_(x[i], code_at<Bits>(c, i), a); b = fma_(x[i + 1], code_at<Bits>(c, i + 1), b); }
  }
  return a + b;
}
