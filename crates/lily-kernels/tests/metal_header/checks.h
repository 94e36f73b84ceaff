// What the headers must do, each thing by itself. CHECK says what is not so.
#define CHECK(...) do { if (!(__VA_ARGS__)) { if (!failures++) printf("%s: %s\n", variant, #__VA_ARGS__); } } while (0)
static bool close(float a, double b) { return std::fabs(a - b) <= 1e-6 * std::fabs(b); }
// Whose first argument is an input, and so on; called below as Metal would, ids and all.
struct Two { uint n; float f; };
static uint seen[6]; static float result;
KERNEL(all_of_it, 64, IN(0, float, x), OUT(1, float, y), INOUT(2, float, z), PARAMS(3, Two, p)) {
  const uint ids[6] = {TG_X, TG_Y, TG_Z, TID, LANE, SG};
  for (int i = 0; i < 6; i++) seen[i] = ids[i];
  y[0] = x[0] * p.f; z[0] += float(p.n);
}
// A result of 16 rows, twice over: what comes second adds to what came first. Not a template, in which a result's type depends.
#define EIGHT(v) make_uint4(pack_bf2(v[0], v[1]), pack_bf2(v[2], v[3]), pack_bf2(v[4], v[5]), pack_bf2(v[6], v[7]))
#define PRODUCTS(NAME, TURNED, COLUMNS) static void NAME(const char* variant) { \
  TENSOR_TILE(a_tile, 16); TENSOR_TILE(b_tile, 64); \
  for (uint r = 0; r < 64; r++) for (uint k8 = 0; k8 < 8; k8++) { \
    float f[2][8]; \
    for (uint i = 0; i < 8; i++) { const uint k = k8 * 8 + i; f[0][i] = float(int((r * 5 + k * 3) % 7) - 3); f[1][i] = float(int((r * 3 + k * 11) % 13) - 6); } \
    if (r < 16) tile_put8(a_tile, r, k8, EIGHT(f[0])); \
    tile_put8(b_tile, r, k8, EIGHT(f[1])); \
  } \
  TENSOR_OP(op, 16, COLUMNS, TURNED, 4); \
  TENSOR_VIEW(a, a_tile, 16); TENSOR_VIEW(b, b_tile, TURNED ? COLUMNS : 64); \
  TENSOR_ACC(acc, op, a, b); \
  TENSOR_RUN(op, a, b, acc); TENSOR_RUN(op, a, b, acc); \
  uint elements = 0; \
  TENSOR_EACH(acc, i, r, c, { \
    float sum = 0.0f; \
    if (r < 16 && c < COLUMNS) for (uint k = 0; k < 64; k++) sum += float(a_tile[r * 64 + k]) * float(b_tile[TURNED ? c * 64 + k : k * 64 + c]); \
    CHECK(r < 16 && c < COLUMNS); CHECK(acc[i] == 2.0f * sum); elements++; \
  }) \
  CHECK(elements == 16 * COLUMNS); \
  CHECK(!mpp::tensor_ops::relaxed); CHECK(mpp::tensor_ops::simdgroups == 4); \
}
PRODUCTS(as_stored, 0, 64)
PRODUCTS(turned, 1, 32)
static void checks(const char* variant) {
  float x = 3.0f, y = 0.0f, z = 1.0f; const Two two = {5, 0.5f};
  all_of_it(&x, &y, &z, two, uint3{11, 12, 13}, 14, 15, 16);
  for (uint i = 0; i < 6; i++) CHECK(seen[i] == 11 + i);
  CHECK(y == 1.5f && z == 6.0f);

  tg_barrier(); CHECK(metal::barrier == 16 + 2);
  tg_barrier_device(); CHECK(metal::barrier == 16 + 2 + 1);
  sg_barrier(); CHECK(metal::barrier == 2);

  for (float v : {-3.5f, -1.0f, -0.25f, 0.0f, 0.3f, 1.0f, 2.5f, 9.0f}) {
    CHECK(close(fexp(v), std::exp(double(v)))); CHECK(close(fsin(v), std::sin(double(v)))); CHECK(close(fcos(v), std::cos(double(v))));
    CHECK(as_float(as_uint(v)) == v); CHECK(fma_(v, 3.0f, 0.5f) == v * 3.0f + 0.5f); CHECK(fmax_(v, 0.4f) == (v > 0.4f ? v : 0.4f)); CHECK(fmin_(v, 0.4f) == (v < 0.4f ? v : 0.4f));
    if (v != 0.0f) CHECK(close(frcp(v), 1.0 / v));
    if (v > 0.0f) { CHECK(close(frsqrt(v), 1.0 / std::sqrt(double(v)))); CHECK(std::fabs(flog(v) - std::log(double(v))) < 1e-6); }
  }
  CHECK(as_uint(1.0f) == 0x3f800000u);
  CHECK(fma_(1.00000012f, 1.00000012f, -1.00000024f) == std::fma(1.00000012f, 1.00000012f, -1.00000024f));
  const uint words[] = {0u, 1u, 7u, 0x80000000u, 0xffffffffu, 123456789u};
  for (uint a : words) for (uint b : words) {
    CHECK(umin_(a, b) == (a < b ? a : b)); CHECK(umax_(a, b) == (a > b ? a : b)); CHECK(umulhi(a, b) == uint((uint64_t(a) * b) >> 32));
  }
  CHECK(pack_bf2(1.0f, -2.0f) == 0xc0003f80u); CHECK(pack_bf2(1.005859375f, 0.0f) == 0x00003f81u);

  // vectors, and what lies under them
  float f[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  const float4 four = vload<float4>(f + 2); CHECK(four.x == 2 && four.y == 3 && four.z == 4 && four.w == 5);
  const float2 pair = vload_stream<float2>(f + 5); CHECK(pair.x == 5 && pair.y == 6);
  CHECK(vload_threadgroup<float2>(f + 1).y == 2); prefetch_near(f);
  vstore(f + 1, make_float2(8.0f, 9.0f)); vstore_threadgroup(f + 4, make_float4(1.0f, 2.0f, 3.0f, 10.0f));
  CHECK(f[0] == 0 && f[1] == 8 && f[2] == 9 && f[3] == 3 && f[4] == 1 && f[7] == 10);
  const uint4 made = make_uint4(1, 2, 3, 4); const uint2 two_words = make_uint2(5, 6);
  CHECK(made.x == 1 && made.w == 4 && two_words.x == 5 && two_words.y == 6);
  TG_ARRAY(bf16, halves, 4); CHECK((void*)as_floats(halves) == (void*)halves && sizeof(halves) == 8 && (uintptr_t)halves % 16 == 0);

  // 4-bit codes
  float xs[8], raw[8]; uint w = 0; double sum = 0.25;
  for (int i = 0; i < 8; i++) { const uint code = uint(i * 7 + 3) % 16; raw[i] = xs[i] = float(i * i) - 5.5f; w |= code << (4 * i); sum += double(raw[i]) * code; }
  const float off = q4_prescale(xs); CHECK(close(q4_dot8(w, xs, 0.25f) - off, sum));
  for (uint half : {0u, 1u}) {
    const uint4 q = q4_dequant8(half ? 0xfedcba98u : 0x76543210u, bf16(0.5f), bf16(-1.0f)); const float first = half ? 3.0f : -1.0f;
    CHECK(q.x == pack_bf2(first, first + 0.5f) && q.y == pack_bf2(first + 1.0f, first + 1.5f) && q.z == pack_bf2(first + 2.0f, first + 2.5f) && q.w == pack_bf2(first + 3.0f, first + 3.5f));
  }
  as_stored(variant); turned(variant);
}
#undef CHECK
