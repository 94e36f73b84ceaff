// Products of a whole threadgroup on Metal 4's tensor operations: MSL 4.0, and macOS 26.1 for bf16. A kernel that needs this
// has the constant KD_TENSOR. Operands are packed bf16 tiles in threadgroup memory, of sizes known here: nothing is ever past an
// edge. Results are cooperative: each thread holds some of a tile's elements, which the hardware chooses. They cannot be members
// or elements of anything, so this is macros.
#define TENSOR_LD 64
#define TENSOR_TILE(name, ROWS) TG_ARRAY(bf16, name, (ROWS) * TENSOR_LD)
FN uint tile_at(uint row, uint k8) { return row * TENSOR_LD + k8 * 8; }      // where those 8 values stand
FN void tile_put8(threadgroup bf16* t, uint row, uint k8, uint4 v) { *(threadgroup uint4*)(t + tile_at(row, k8)) = v; }
// op: C [M][N] += A [M][64] B, by SGS simdgroups, all there are. TURNED 1: B is stored [N][64]; 0: as [64][N].
#define TENSOR_OP(op, M_, N_, TURNED, SGS) \
  constexpr auto op##_shape = mpp::tensor_ops::matmul2d_descriptor(M_, N_, TENSOR_LD, false, TURNED, false, mpp::tensor_ops::matmul2d_descriptor::mode::multiply_accumulate); \
  mpp::tensor_ops::matmul2d<op##_shape, execution_simdgroups<SGS>> op
// name: a TENSOR_TILE of ROWS rows as an operand
#define TENSOR_VIEW(name, tile, ROWS) \
  static_assert(sizeof(tile) >= (ROWS) * TENSOR_LD * sizeof(bf16), "a view of more rows than the tile has"); \
  tensor<threadgroup bf16, extents<int, TENSOR_LD, ROWS>, tensor_inline> name(tile, extents<int, TENSOR_LD, ROWS>())
// acc: a result of op, zero
#define TENSOR_ACC(acc, op, a, b) \
  auto acc = op.get_destination_cooperative_tensor<decltype(a), decltype(b), float>(); \
  UNROLL for (ushort kd_i = 0; kd_i < acc.get_capacity(); kd_i++) acc[kd_i] = 0.0f
// Collective: all threads come by. Tiles are read from here to the next barrier.
#define TENSOR_RUN(op, a, b, acc) op.run(a, b, acc)
// Each element i that this thread holds, at row r and column c.
#define TENSOR_EACH(acc, i, r, c, ...) UNROLL for (ushort i = 0; i < acc.get_capacity(); i++) if (acc.is_valid_element(i)) { \
  const auto kd_at = acc.get_multidimensional_index(i); const uint r = uint(kd_at[1]), c = uint(kd_at[0]); __VA_ARGS__ }
