// What metal.h and metal_tensor.h use of Metal, to be run: plain C++ for one thread. Address spaces are nothing, barriers note what
// they were told, tensors are loops.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
typedef unsigned int uint; typedef unsigned short ushort; typedef unsigned long ulong;
#define device
#define threadgroup
#define thread
#define constant const
#define kernel
template <class T> struct vec2 { T x, y; vec2(T a, T b) : x(a), y(b) {} vec2() = default; };
template <class T> struct vec4 { T x, y, z, w; vec4(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {} vec4() = default; };
typedef vec2<uint> uint2; typedef vec2<float> float2; typedef vec4<uint> uint4; typedef vec4<float> float4;
struct uint3 { uint x, y, z; };
template <class To, class From> To as_type(From f) { static_assert(sizeof(To) == sizeof(From), "another size"); To t; memcpy(&t, &f, sizeof t); return t; }
struct bfloat {
  ushort v; bfloat() = default;
  explicit bfloat(float f) { const uint u = as_type<uint>(f); v = ushort((u + 0x7fffu + ((u >> 16) & 1)) >> 16); }
  explicit operator float() const { return as_type<float>(uint(v) << 16); }
};
struct half { ushort v; };

namespace metal {
inline float exp(float x) { return std::exp(x); }      inline float exp2(float x) { return std::exp2(x); }
inline float log(float x) { return std::log(x); }      inline float log2(float x) { return std::log2(x); }
inline float sin(float x) { return std::sin(x); }      inline float cos(float x) { return std::cos(x); }
inline float sqrt(float x) { return std::sqrt(x); }    inline float rsqrt(float x) { return 1.0f / std::sqrt(x); }
inline float fma(float a, float b, float c) { return std::fma(a, b, c); }
inline float max(float a, float b) { return a > b ? a : b; }   inline float min(float a, float b) { return a < b ? a : b; }
inline uint max(uint a, uint b) { return a > b ? a : b; }      inline uint min(uint a, uint b) { return a < b ? a : b; }
inline uint mulhi(uint a, uint b) { return uint((uint64_t(a) * b) >> 32); }
enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(int(a) | int(b)); }
inline int barrier = -1;                                       // flags, and 16 for a whole threadgroup
inline void threadgroup_barrier(mem_flags f) { barrier = 16 + int(f); }
inline void simdgroup_barrier(mem_flags f) { barrier = int(f); }

// --- tensors. A tensor's first extent is the one whose elements are adjacent.
template <class I, int... E> struct extents { };
struct tensor_inline {};
template <int N> struct execution_simdgroups { static constexpr int count = N; };
template <class T, class E, class D> struct tensor;
template <class T, class I, int C, int R> struct tensor<T, extents<I, C, R>, tensor_inline> {
  static constexpr int columns = C, rows = R; T* p;
  tensor(T* p_, extents<I, C, R>) : p(p_) {}
  float at(int r, int c) const { return r < R && c < C ? float(p[r * C + c]) : 1e30f; }
};
struct at2 { int v[2]; int operator[](int i) const { return v[i]; } };
template <class T, int Rows, int Cols> struct cooperative {
  static constexpr int HELD = Rows * Cols, EXTRA = 3;          // some of what a thread holds is no element
  T v[HELD + EXTRA];
  cooperative() { for (T& x : v) x = T(1e30f); }               // nothing says what is in a new one
  ushort get_capacity() const { return HELD + EXTRA; }
  bool is_valid_element(ushort i) const { return i >= EXTRA; }
  T& operator[](ushort i) { return v[i]; }
  static int element(int i) { return (i - EXTRA) * 7 % HELD; } // an odd factor: each once
  at2 get_multidimensional_index(ushort i) const { return {{element(i) % Cols, element(i) / Cols}}; }   // column, row
};
}
namespace mpp { namespace tensor_ops {
struct matmul2d_descriptor {
  enum class mode { multiply, multiply_accumulate };
  int m, n, k; bool left, right, relaxed; mode how;
  constexpr matmul2d_descriptor(int m_, int n_, int k_ = -1, bool left_ = false, bool right_ = false, bool relaxed_ = false, mode how_ = mode::multiply)
      : m(m_), n(n_), k(k_), left(left_), right(right_), relaxed(relaxed_), how(how_) {}
  constexpr operator ulong() const { return (ulong)m << 40 | (ulong)n << 24 | (ulong)k << 4 | (ulong)left << 3 | (ulong)right << 2 | (ulong)relaxed << 1 | (ulong)(how == mode::multiply_accumulate); }
};
inline bool relaxed = false; inline int simdgroups = 0;        // of the last product
template <ulong D, class Scope> struct matmul2d {
  static constexpr int M = (D >> 40) & 0xffff, N = (D >> 24) & 0xffff, K = (D >> 4) & 0xfffff, Left = (D >> 3) & 1, Right = (D >> 2) & 1, Adds = D & 1;
  template <class A, class B, class T> metal::cooperative<T, M, N> get_destination_cooperative_tensor() { return {}; }
  template <class A, class B, class C> void run(A& a, B& b, C& acc) {
    relaxed = (D >> 1) & 1; simdgroups = Scope::count;
    for (int i = C::EXTRA; i < acc.get_capacity(); i++) {
      const int r = C::element(i) / N, c = C::element(i) % N; float s = Adds ? acc.v[i] : 0.0f;
      for (int k = 0; k < K; k++) s += (Left ? a.at(k, r) : a.at(r, k)) * (Right ? b.at(c, k) : b.at(k, c));
      acc.v[i] = s;
    }
  }
};
}}
inline int failures = 0;
