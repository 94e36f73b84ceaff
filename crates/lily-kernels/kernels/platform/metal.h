// The dialect on Metal (MSL 3.1 and later, for bfloat). The system compiles this text at run time.
#include <metal_stdlib>
#include <metal_simdgroup_matrix>
#ifdef KD_TENSOR
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
#endif
using namespace metal;
#define make_uint4(...) uint4(__VA_ARGS__)
#define make_uint2(...) uint2(__VA_ARGS__)
#define make_float4(...) float4(__VA_ARGS__)
#define make_float2(...) float2(__VA_ARGS__)
#define TG_ARRAY(T, name, N) alignas(16) threadgroup T name[N]
#define KD_METAL 1
typedef bfloat bf16;
typedef half f16;

// --- entry points and ids
#define KERNEL(name, threads, ...) [[max_total_threads_per_threadgroup(threads)]] kernel void name(__VA_ARGS__, \
  uint3 kd_tg [[threadgroup_position_in_grid]], uint kd_tid [[thread_index_in_threadgroup]], \
  uint kd_lane [[thread_index_in_simdgroup]], uint kd_sg [[simdgroup_index_in_threadgroup]])
#define IN(i, T, name) device const T* name [[buffer(i)]]
#define OUT(i, T, name) device T* name [[buffer(i)]]
#define INOUT(i, T, name) device T* name [[buffer(i)]]
#define PARAMS(i, T, name) constant T& name [[buffer(i)]]
#define TG_X kd_tg.x
#define TG_Y kd_tg.y
#define TG_Z kd_tg.z
#define TID kd_tid
#define LANE kd_lane
#define SG kd_sg
#define DEP_WAIT()
#define DEP_LAUNCH()
#define FN inline
#define FN_MEMBER
#define UNROLL _Pragma("clang loop unroll(full)")
#define UNROLL_8 _Pragma("clang loop unroll_count(8)")

// --- pointers and vector access
template <class T> using gptr = device T*;
template <class T> using tptr = threadgroup T*;
template <class T> using lptr = thread T*;
template <class T> using lref = thread T&;
template <class V, class T> FN V vload(device T* p) { return *(device const V*)p; }
template <class V, class T> FN V vload(threadgroup T* p) { return *(threadgroup const V*)p; }
template <class V, class T> FN V vload_stream(device T* p) { return *(device const V*)p; }
template <class V, class T> FN void vstore(device T* p, V v) { *(device V*)p = v; }
template <class V, class T> FN void vstore(threadgroup T* p, V v) { *(threadgroup V*)p = v; }
FN threadgroup float* as_floats(threadgroup bf16* t) { return (threadgroup float*)t; }
template <class T> FN void prefetch_near(device T*) {}

// --- barriers; simd_sum, simd_max, simd_min, simd_any, simd_shuffle and simd_shuffle_xor are MSL's own
FN void tg_barrier() { threadgroup_barrier(mem_flags::mem_threadgroup); }
FN void tg_barrier_device() { threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device); }
FN void sg_barrier() { simdgroup_barrier(mem_flags::mem_threadgroup); }

// --- scalars
FN float as_float(uint u) { return as_type<float>(u); }
FN uint as_uint(float f) { return as_type<uint>(f); }
FN float fexp(float x) { return exp(x); }
FN float flog(float x) { return log(x); }
FN float fsin(float x) { return sin(x); }
FN float fcos(float x) { return cos(x); }
FN float frsqrt(float x) { return rsqrt(x); }
FN float frcp(float x) { return 1.0f / x; }
FN float fmax_(float a, float b) { return max(a, b); }
FN float fmin_(float a, float b) { return min(a, b); }
FN float fma_(float a, float b, float c) { return fma(a, b, c); }
FN uint umin_(uint a, uint b) { return min(a, b); }
FN uint umax_(uint a, uint b) { return max(a, b); }
FN uint umulhi(uint a, uint b) { return mulhi(a, b); }
FN uint pack_bf2(float lo, float hi) { return uint(as_type<ushort>(bf16(lo))) | (uint(as_type<ushort>(bf16(hi))) << 16); }
