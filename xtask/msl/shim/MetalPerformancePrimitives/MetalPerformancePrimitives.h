// The matrix product of Metal Performance Primitives, from the public description, with what it demands of its operands.
#pragma once
#include <metal_tensor>
namespace msl {
template <int N> void msl_scope();                       // cargo xtask msl looks for it in the generated code
// The earliest system (major * 100 + minor) whose product takes these operands; 0 is none.
template <class A, class B, class C> struct product_since { enum { value = 0 }; };
#define MSL_PRODUCT(A, B, C, OS) template <> struct product_since<A, B, C> { enum { value = OS }; };
MSL_PRODUCT(half, half, half, 2600) MSL_PRODUCT(half, half, float, 2600) MSL_PRODUCT(half, float, float, 2600) MSL_PRODUCT(float, half, float, 2600)
MSL_PRODUCT(float, float, float, 2600) MSL_PRODUCT(int8_t, int8_t, int, 2600) MSL_PRODUCT(half, int8_t, half, 2600) MSL_PRODUCT(half, int8_t, float, 2600)
MSL_PRODUCT(int8_t, half, half, 2600) MSL_PRODUCT(int8_t, half, float, 2600) MSL_PRODUCT(float, int8_t, float, 2600) MSL_PRODUCT(int8_t, float, float, 2600)
MSL_PRODUCT(bfloat, bfloat, bfloat, 2601) MSL_PRODUCT(bfloat, bfloat, float, 2601) MSL_PRODUCT(bfloat, float, float, 2601) MSL_PRODUCT(float, bfloat, float, 2601)
MSL_PRODUCT(bfloat, int8_t, bfloat, 2601) MSL_PRODUCT(bfloat, int8_t, float, 2601) MSL_PRODUCT(int8_t, bfloat, bfloat, 2601) MSL_PRODUCT(int8_t, bfloat, float, 2601)
template <class T> struct shape { enum { known = 0, cooperative = 0, rows = 0, cols = 0 }; };
template <class T, class I, int Cols, int Rows> struct shape<metal::tensor<T, metal::extents<I, Cols, Rows>, metal::tensor_inline>> { enum { known = Cols >= 0 && Rows >= 0, cooperative = 0, rows = Rows, cols = Cols }; };
template <class T, int Rows, int Cols> struct shape<metal::cooperative_tensor<T, Rows, Cols>> { enum { known = 1, cooperative = 1, rows = Rows, cols = Cols }; };
}
namespace mpp { namespace tensor_ops {
struct matmul2d_descriptor {
  enum class mode { multiply, multiply_accumulate };
  int m, n, k; bool transpose_left, transpose_right, relaxed; mode how;
  constexpr matmul2d_descriptor(int m_, int n_, int k_ = -1, bool left = false, bool right = false, bool relaxed_precision = false, mode how_ = mode::multiply)
      : m(m_), n(n_), k(k_), transpose_left(left), transpose_right(right), relaxed(relaxed_precision), how(how_) {}
  // Metal takes the descriptor itself as a template argument; C++17 takes a number that it becomes.
  constexpr operator ulong() const {
    return (ulong)m << 40 | (ulong)n << 24 | (ulong)(k + 1) << 4 | (ulong)transpose_left << 3 | (ulong)transpose_right << 2 | (ulong)relaxed << 1 | (ulong)(how == mode::multiply_accumulate);
  }
};
template <ulong D, class Scope> class matmul2d {
  enum { M = (D >> 40) & 0xffff, N = (D >> 24) & 0xffff, K = (int)((D >> 4) & 0xfffff) - 1, Left = (D >> 3) & 1, Right = (D >> 2) & 1 };
  static_assert(M > 0 && N > 0 && M % 16 == 0 && N % 16 == 0 && (K < 0 || (K > 0 && K % 16 == 0)), "matmul2d: sizes are multiples of 16");
  static_assert(K >= 0 || !(D & 1), "matmul2d: accumulating over an own loop needs an explicit k");
 public:
  template <class A, class B, class T> metal::cooperative_tensor<T, M, N> get_destination_cooperative_tensor();
  template <class A, class B, class T> metal::cooperative_tensor<typename A::element_type, M, K> get_left_input_cooperative_tensor();
  template <class A, class B, class T> metal::cooperative_tensor<typename B::element_type, K, N> get_right_input_cooperative_tensor();
  // In Metal all three are `thread` references, from which clang does not deduce types.
  template <class TA, class TB, class TC> void run(TA &, TB &, TC &) {
    typedef typename msl::in_thread<TA>::type A; typedef typename msl::in_thread<TB>::type B; typedef typename msl::in_thread<TC>::type C;
    typedef msl::product_since<typename A::element_type, typename B::element_type, typename C::element_type> Since;
    static_assert(Since::value != 0, "matmul2d: no product of these types");
    static_assert(Since::value == 0 || Since::value <= MSL_OS, "matmul2d: a product of these types needs a later system");
    typedef msl::shape<A> SA; typedef msl::shape<B> SB; typedef msl::shape<C> SC;
    static_assert(!SA::known || ((int)SA::rows == (Left ? (int)K : (int)M) && (int)SA::cols == (Left ? (int)M : (int)K)) || K < 0, "matmul2d: the left operand has another shape");
    static_assert(!SB::known || ((int)SB::rows == (Right ? (int)N : (int)K) && (int)SB::cols == (Right ? (int)K : (int)N)) || K < 0, "matmul2d: the right operand has another shape");
    static_assert(!SC::known || ((int)SC::rows == (int)M && (int)SC::cols == (int)N), "matmul2d: the result has another shape");
    static_assert(!(SA::cooperative && SB::cooperative) || M == 32 || N == 32 || K == 32, "matmul2d: with two cooperative operands one size must be 32");
    msl::msl_scope<Scope::count>();
  }
};
}}
