// Metal's simdgroup_matrix in the emulator, so that metal_tiles.h runs there as it is. Which lane holds which elements is as opaque
// as Metal calls it: not the order of any device, and another for each type of element. Loads and stores go through checked memory, element by element.
typedef unsigned long ulong;
struct ulong2 { ulong x, y; explicit ulong2(ulong v) : x(v), y(v) {} };
namespace kd {
// Element i (0 or 1) of a lane is this one of the 64, counted by rows.
template <class T> uint matrix_element(uint lane, uint i) { return (lane * 2 + i) * (sizeof(T) == 4 ? 27 : 45) % 64; }
}
template <class T, int Cols, int Rows> struct simdgroup_matrix {
  static_assert(Cols == 8 && Rows == 8, "8 x 8 only");
  T own[2];
  T* thread_elements() { return own; }
};
template <class T, int Cols, int Rows> simdgroup_matrix<T, Cols, Rows> make_filled_simdgroup_matrix(T v) { return {{v, v}}; }
template <class T, class U> void simdgroup_load(simdgroup_matrix<T, 8, 8>& d, kd::Ptr<U, 3> from, ulong ld = 8, ulong2 origin = ulong2(0), bool transpose = false, int line = __builtin_LINE()) {
  static_assert(std::is_same<std::remove_const_t<U>, T>::value, "a load converts nothing");
  kd::rendezvous(0, 17, line);
  for (uint i = 0; i < 2; i++) {
    const uint e = kd::matrix_element<T>(LANE, i), r = transpose ? e % 8 : e / 8, c = transpose ? e / 8 : e % 8;
    d.own[i] = T(from[(origin.y + r) * ld + origin.x + c]);
  }
}
template <class T> void simdgroup_store(simdgroup_matrix<T, 8, 8> a, kd::Ptr<T, 3> to, ulong ld = 8, ulong2 origin = ulong2(0), bool transpose = false, int line = __builtin_LINE()) {
  kd::rendezvous(0, 18, line);
  for (uint i = 0; i < 2; i++) {
    const uint e = kd::matrix_element<T>(LANE, i), r = transpose ? e % 8 : e / 8, c = transpose ? e / 8 : e % 8;
    to[(origin.y + r) * ld + origin.x + c] = a.own[i];
  }
}
// d = a b + c
template <class D, class A, class B, class C>
void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a, simdgroup_matrix<B, 8, 8> b, simdgroup_matrix<C, 8, 8> c, int line = __builtin_LINE()) {
  static_assert(std::is_same<A, B>::value && std::is_same<D, C>::value, "the types of a product");
  const kd::Factors& factors = kd::exchange_factors(
    [&](kd::Factors& mine) {
      for (uint i = 0; i < 2; i++) {
        const uint e = kd::matrix_element<A>(LANE, i);
        mine.a[e] = float(a.own[i]); mine.b[e] = float(b.own[i]);
      }
    }, 19, line);
  for (uint i = 0; i < 2; i++) {
    const uint e = kd::matrix_element<D>(LANE, i);
    float s = float(c.own[i]);
    for (uint k = 0; k < 8; k++) s += factors.a[e / 8 * 8 + k] * factors.b[k * 8 + e % 8];
    d.own[i] = D(s);
  }
}
