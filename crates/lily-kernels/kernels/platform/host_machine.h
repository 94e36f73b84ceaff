// The emulator's machine. Every thread of a threadgroup is a fiber on one thread of the processor; simdgroups run in a
// shuffled order and meet at simdgroup operations and barriers. Each access to memory that a kernel may write goes through
// shadow cells (one per two bytes) that remember who touched it last and between which barriers.
#pragma once
#include <cmath>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>
#define KD_HOST 1
#ifndef KD_CHECK
#define KD_CHECK 2            // 1: bounds and alignment; 2: races and reads of unwritten memory too
#endif
#ifndef KD_TG_LIMIT
#define KD_TG_LIMIT 32768
#endif
typedef unsigned int uint; typedef unsigned short ushort; typedef unsigned char uchar;

namespace kd {
// ---------------------------------------------------------------- faults, as the host reads them
enum Kind : uint { RACE = 1, OUT_OF_BOUNDS, UNWRITTEN, DIVERGENCE, MISALIGNED, THREADGROUP_MEMORY, BAD_CALL };
struct Fault { uint kind; char text[252]; };
struct Arg { void* data; size_t bytes; uint writable, initialised; const char* name; size_t alignment; };   // alignment: what the kernel's text promises of the address
struct Machine;
struct Faults { Fault* out = nullptr; uint room = 0, kept = 0; long total = 0; uint of_kind[8] = {}; Machine* machine = nullptr; };   // the first four of each kind are kept
inline thread_local Faults faults;

// ---------------------------------------------------------------- shadow memory
struct Stamp { uint run = 0, group = 0, tg_epoch = 0, sg_epoch = 0; uint16_t tid = 0; uint8_t many_threads = 0, many_simdgroups = 0; };
struct Cell { Stamp written, read; uint8_t initialised = 0; };
struct Region {                         // a device buffer or a threadgroup array
  static constexpr size_t PAGE = 4096;  // cells, allocated when first touched
  char* base = nullptr; size_t bytes = 0, alignment = 16; const char* name = "?"; bool threadgroup = false, tracked = false, initialised = false;
  std::vector<std::unique_ptr<Cell[]>> pages;
  void reset() { pages.clear(); pages.resize((bytes / 2 + PAGE - 1) / PAGE + 1); }
  Cell& cell(size_t i) {
    auto& page = pages[i / PAGE];
    if (!page) { page.reset(new Cell[PAGE]); if (initialised) for (size_t k = 0; k < PAGE; k++) page[k].initialised = 1; }
    return page[i % PAGE];
  }
};

// ---------------------------------------------------------------- fibers
#if defined(__x86_64__)
extern "C" void kd_switch(void** save_sp, void* load_sp);
asm(R"(
.text
.weak kd_switch
.type kd_switch,@function
kd_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
constexpr int SAVED = 6;
#elif defined(__aarch64__) && !defined(__APPLE__)
extern "C" void kd_switch(void** save_sp, void* load_sp);
asm(R"(
.text
.weak kd_switch
.type kd_switch,@function
kd_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
)");
#else
#error "the emulator switches fibers on x86-64 and on arm64 Linux; add kd_switch for this machine"
#endif
enum State { READY, AT_BARRIER, AT_SIMDGROUP, DONE };
constexpr size_t STACK = 128 << 10;
struct Fiber { void* sp = nullptr; char* stack = nullptr; State state = READY; uint tid = 0, sg = 0, lane = 0; int line = 0; };
struct Factors { float a[64], b[64]; };                          // of one product of 8 x 8 matrices, by rows
struct Simdgroup { uint arrived = 0, phase = 0, kind = 0, epoch = 0; int line = 0; uint64_t slot[2][32]; Factors factors[2]; };
struct Machine {
  void* main_sp = nullptr; std::vector<Fiber> fibers; std::vector<Simdgroup> simdgroups; Fiber* f = nullptr;
  uint x = 0, y = 0, z = 0, threads = 0, run = 0, group = 0, tg_epoch = 0, device_epoch = 0, arrived = 0, tg_bytes = 0; int line = 0, meeting = 0;
  uint64_t generation = 0; void (*body)(void*) = nullptr; void* arg = nullptr; const char* kernel = "?";
  ~Machine() { for (auto& f : fibers) free(f.stack); }
};
inline thread_local Machine machine;
// The machine of the fiber that asks. Its address lies at the foot of the fiber's stack, whose own address is a multiple of its
// size: far cheaper than thread-local storage of a loaded library, and asked at every access.
struct Current {
  operator Machine*() const { return *(Machine**)((uintptr_t)__builtin_frame_address(0) & ~(uintptr_t)(STACK - 1)); }
  Machine* operator->() const { return *this; }
};
constexpr Current cur{};
inline void fail(Kind kind, const char* format, ...) {
  Faults& r = faults; r.total++; if (r.kept >= r.room || r.of_kind[kind]++ >= 4) return;
  Fault& fault = r.out[r.kept++]; fault.kind = kind;
  va_list ap; va_start(ap, format); int k = vsnprintf(fault.text, sizeof fault.text, format, ap); va_end(ap);
  Machine* m = r.machine;
  if (m && m->f && k >= 0 && (size_t)k < sizeof fault.text)
    snprintf(fault.text + k, sizeof fault.text - k, " [kernel %s, threadgroup %u,%u,%u, thread %u]", m->kernel, m->x, m->y, m->z, m->f->tid);
}
// What the compiler's checks of array bounds call (-fsanitize=bounds), with the place in the text and the index.
struct Place { const char* file; uint line, column; };
}
extern "C" __attribute__((visibility("hidden"), weak)) void __ubsan_handle_out_of_bounds(const kd::Place* place, size_t index) {
  kd::fail(kd::OUT_OF_BOUNDS, "index %td of an array of a thread, at %s:%u", (ptrdiff_t)index, place->file, place->line);
}
namespace kd {
inline void pause() { Machine* m = cur; Fiber* me = m->f; kd_switch(&me->sp, m->main_sp); }
inline void fiber_entry() { Machine* m = cur; m->body(m->arg); m->f->state = DONE; pause(); abort(); }
inline void fiber_reset(Machine* m, Fiber& f) {
  if (!f.stack) f.stack = (char*)aligned_alloc(STACK, STACK);
  *(Machine**)f.stack = m;
  char* top = f.stack + STACK - f.tid % 64 * 576;   // staggered, or the stacks' upper ends fall into the same sets of the cache
#if defined(__x86_64__)
  void** s = (void**)top; *--s = nullptr; *--s = (void*)fiber_entry;
  for (int i = 0; i < SAVED; i++) *--s = nullptr;
#else
  void** s = (void**)top - 20; memset(s, 0, 160); s[11] = (void*)fiber_entry;
#endif
  f.sp = s; f.state = READY;
}
// All lanes of a simdgroup meet here; operands are exchanged through slots, two sets in turn.
inline const uint64_t* rendezvous(uint64_t v, uint kind, int line) {
  Machine* m = cur; Fiber* f = m->f; Simdgroup& g = m->simdgroups[f->sg];
  if (g.arrived == 0) { g.line = line; g.kind = kind; }
  else if (g.line != line || g.kind != kind) fail(DIVERGENCE, "lanes of a simdgroup part: lane %u at line %d, others at line %d", f->lane, line, g.line);
  uint set = g.phase & 1; g.slot[set][f->lane] = v;
  if (++g.arrived == 32) { g.arrived = 0; g.phase++; if (kind == 1) g.epoch++; for (uint l = 0; l < 32; l++) m->fibers[f->sg * 32 + l].state = READY; }
  else { f->state = AT_SIMDGROUP; f->line = line; pause(); }
  return cur->simdgroups[f->sg].slot[set];
}
// Each lane puts its elements of two matrices; all lanes get them whole. They stay until the simdgroup's second meeting from here,
// at which every lane has read them.
template <class Put> const Factors& exchange_factors(Put put, uint kind, int line) {
  Simdgroup& g = cur->simdgroups[cur->f->sg]; Factors& factors = g.factors[g.phase & 1];
  put(factors); rendezvous(0, kind, line);
  return factors;
}
// All threads of a threadgroup meet here: at a barrier, or at an operation of them all, which orders no memory.
enum Meeting { OPERATION, BARRIER, DEVICE_BARRIER };
inline void meet(int line, Meeting meeting) {
  Machine* m = cur; Fiber* f = m->f;
  if (m->arrived == 0) { m->line = line; m->meeting = meeting; }
  else if (m->line != line || m->meeting != meeting) fail(DIVERGENCE, "%s at line %d while others wait at line %d", meeting == OPERATION ? "an operation of the threadgroup" : "a barrier", line, m->line);
  if (++m->arrived == m->threads) {
    m->arrived = 0; if (meeting != OPERATION) m->tg_epoch++; if (meeting == DEVICE_BARRIER) m->device_epoch++;
    for (uint i = 0; i < m->threads; i++) m->fibers[i].state = READY;
  } else { f->state = AT_BARRIER; f->line = line; pause(); }
}

// ---------------------------------------------------------------- what an access may do
inline bool clash(const Stamp& before, const Stamp& now) {       // at least one of the two is a write
  if (before.run != now.run) return false;
  if (before.group != now.group) return true;
  if (before.tg_epoch != now.tg_epoch) return false;
  if (before.many_simdgroups || before.tid / 32 != now.tid / 32) return true;
  if (before.sg_epoch != now.sg_epoch) return false;
  return before.many_threads || before.tid != now.tid;
}
inline bool access(Region* r, const void* p, size_t bytes, size_t align, bool write) {
  size_t off = (const char*)p - r->base;
  if ((const char*)p < r->base || off + bytes > r->bytes) {
    fail(OUT_OF_BOUNDS, "%s of %zu bytes at offset %td of '%s', which has %zu bytes", write ? "write" : "read", bytes, (const char*)p - r->base, r->name, r->bytes);
    return false;
  }
  // as if the buffer lay at the least aligned address that the kernel's text allows
  if (off % align || align > r->alignment || (uintptr_t)p % align) { fail(MISALIGNED, "offset %zu of '%s', itself at a multiple of %zu, is not at a multiple of %zu", off, r->name, r->alignment, align); return false; }
#if KD_CHECK >= 2
  if (!r->tracked) return true;
  Machine* m = cur; Stamp now; now.run = m->run; now.group = m->group; now.tg_epoch = r->threadgroup ? m->tg_epoch : m->device_epoch;
  // A simdgroup's barrier orders threadgroup memory only (metal.h).
  now.sg_epoch = r->threadgroup ? m->simdgroups[m->f->sg].epoch : 0; now.tid = (uint16_t)m->f->tid;
  for (size_t i = off / 2; i < (off + bytes) / 2; i++) {
    Cell& c = r->cell(i);
    if (write) {
      if (clash(c.written, now) || clash(c.read, now)) fail(RACE, "write to byte %zu of '%s' is not ordered with thread %u", i * 2, r->name, clash(c.written, now) ? c.written.tid : c.read.tid);
      c.written = now; c.initialised = 1;
    } else {
      if (!c.initialised) { fail(UNWRITTEN, "read of byte %zu of '%s', which nobody wrote", i * 2, r->name); c.initialised = 1; }
      if (clash(c.written, now)) { fail(RACE, "read of byte %zu of '%s' is not ordered with the write of thread %u", i * 2, r->name, c.written.tid); c.written.run = 0; }
      Stamp& q = c.read;
      bool same = q.run == now.run && q.group == now.group && q.tg_epoch == now.tg_epoch;
      uint8_t sgs = same && (q.many_simdgroups || q.tid / 32 != now.tid / 32), ths = same && q.sg_epoch == now.sg_epoch && (q.many_threads || q.tid != now.tid);
      q = now; q.many_simdgroups = sgs; q.many_threads = ths;
    }
  }
#endif
  return true;
}
template <class T> struct Ref {
  T* p; Region* r;
  operator T() const { if (!access(r, p, sizeof(T), alignof(T), false)) return T{}; return *p; }
  template <class U, class = std::enable_if_t<!std::is_same<U, T>::value && std::is_constructible<U, T>::value>> explicit operator U() const { return U(T(*this)); }
  Ref& operator=(T v) { if (access(r, p, sizeof(T), alignof(T), true)) *p = v; return *this; }
  Ref& operator=(const Ref& o) { return *this = T(o); }
  Ref& operator+=(T v) { return *this = T(*this) + v; }
};
template <class T, int SPACE> struct Ptr {             // SPACE 1: device; 3: threadgroup
  T* p = nullptr; Region* r = nullptr;
  Ptr() = default; Ptr(T* p_, Region* r_) : p(p_), r(r_) {}
  template <class U, class = std::enable_if_t<std::is_same<const U, T>::value>> Ptr(Ptr<U, SPACE> o) : p(o.p), r(o.r) {}
  template <class I> Ptr operator+(I i) const { return {p + i, r}; }
  template <class I> Ptr& operator+=(I i) { p += i; return *this; }
  template <class I> auto operator[](I i) const {
    if constexpr (std::is_const<T>::value) { using U = std::remove_const_t<T>; U v{}; if (access(r, p + i, sizeof(T), alignof(T), false)) v = p[i]; return v; }
    else return Ref<T>{p + i, r};
  }
};
template <class T, size_t N> struct TgArray {
  Region region; alignas(128) T data[N]; uint64_t generation = 0;
  void enter(const char* name, size_t counted = sizeof(T) * N) {       // first thread of a threadgroup to come by
    Machine* m = cur; if (generation == m->generation) return; generation = m->generation;
    region.base = (char*)data; region.bytes = sizeof(data); region.name = name; region.threadgroup = true; region.tracked = true;
    region.reset(); memset((void*)data, 0xff, sizeof(data));
    m->tg_bytes += (uint)((counted + 15) / 16 * 16);
    if (m->tg_bytes > KD_TG_LIMIT) fail(THREADGROUP_MEMORY, "threadgroup memory is %u bytes with '%s', the limit is %u", m->tg_bytes, name, KD_TG_LIMIT);
  }
  operator Ptr<T, 3>() { return {data, &region}; }
  operator Ptr<const T, 3>() { return {data, &region}; }
  template <class I> Ptr<T, 3> operator+(I i) { return {data + i, &region}; }
  template <class I> Ref<T> operator[](I i) { return {data + i, &region}; }
};

// ---------------------------------------------------------------- kernels and runs
struct Bound { const Arg* arg; Region* region; };
template <class P> struct FromArg;
template <class P> struct FromArg<const P&> { static const P& get(const Bound& a) { return *(const P*)a.arg->data; } static constexpr size_t params = sizeof(P); };
template <class T> struct FromArg<Ptr<T, 1>> { static Ptr<T, 1> get(const Bound& a) { return {(T*)a.arg->data, a.region}; } static constexpr size_t params = 0; };
struct Kernel { const char* name; void (*tramp)(void*, const Bound*); void* fn; uint threads, args; const size_t* params; };
inline std::vector<Kernel>& kernels() { static std::vector<Kernel> k; return k; }
template <class... A, size_t... I> void call(void (*f)(A...), const Bound* a, std::index_sequence<I...>) { f(FromArg<A>::get(a[I])...); }
template <class... A> struct Tramp {
  static void go(void* f, const Bound* a) { call((void (*)(A...))f, a, std::index_sequence_for<A...>{}); }
  static constexpr size_t params[] = {FromArg<A>::params...};
};
struct Register { template <class... A> Register(const char* n, uint threads, void (*f)(A...)) { kernels().push_back({n, &Tramp<A...>::go, (void*)f, threads, (uint)sizeof...(A), Tramp<A...>::params}); } };

// While it lives, what is denormal counts as zero, operands and results, as on a GPU that flushes them.
struct Flushed {
#if defined(__x86_64__)
  uint before = __builtin_ia32_stmxcsr();
  explicit Flushed(bool flush) { if (flush) __builtin_ia32_ldmxcsr(before | 0x8040u); }
  ~Flushed() { __builtin_ia32_ldmxcsr(before); }
#else
  uint64_t before;
  explicit Flushed(bool flush) { asm volatile("mrs %0, fpcr" : "=r"(before)); if (flush) asm volatile("msr fpcr, %0" :: "r"(before | 1u << 24)); }
  ~Flushed() { asm volatile("msr fpcr, %0" :: "r"(before)); }
#endif
};
inline void run_group(Machine& m, uint threads, uint& random, uint seed) {
  std::vector<uint> order(threads / 32);
  for (uint i = 0; i < order.size(); i++) order[i] = i;
  for (uint done = 0; done < threads;) {
    bool any = false;
    if (seed) for (uint i = (uint)order.size(); i > 1; i--) { random = random * 1664525u + 1013904223u; std::swap(order[i - 1], order[(random >> 8) % i]); }
    for (uint o : order) for (uint l = 0; l < 32; l++) { Fiber& f = m.fibers[o * 32 + l];
      if (f.state == READY) { any = true; m.f = &f; kd_switch(&m.main_sp, f.sp); if (f.state == DONE) done++; } }
    if (!any) {
      uint tg = 0, sg = 0; int tl = 0, sl = 0;
      for (uint i = 0; i < threads; i++) { Fiber& f = m.fibers[i]; if (f.state == AT_BARRIER) { tg++; tl = f.line; m.f = &f; } if (f.state == AT_SIMDGROUP) { sg++; sl = f.line; m.f = &f; } }
      fail(DIVERGENCE, "nobody can go on: %u threads at a barrier (line %d), %u at a simdgroup operation (line %d), %u finished", tg, tl, sg, sl, done);
      return;
    }
  }
}
}  // namespace kd

// Runs one kernel over a grid. `declared`: bytes of threadgroup memory that its text states, ~0 for none stated. `seed` 0 runs
// simdgroups in order, others shuffle them; `flush`: denormals count as zero. Returns how many faults there were.
extern "C" __attribute__((visibility("default"))) long kd_run(const char* entry, const uint* groups, const kd::Arg* args, uint count, uint declared, uint seed, uint flush, kd::Fault* out, uint room) {
  using namespace kd;
  faults = Faults{}; faults.out = out; faults.room = room; Machine& m = machine; faults.machine = &m; m.f = nullptr;
  const Kernel* k = nullptr;
  for (auto& x : kernels()) if (!strcmp(x.name, entry)) k = &x;
  if (!k) { fail(BAD_CALL, "there is no kernel '%s'", entry); return faults.total; }
  if (k->args != count) { fail(BAD_CALL, "kernel '%s' takes %u arguments, not %u", entry, k->args, count); return faults.total; }
  if (k->threads % 32 || !k->threads) { fail(BAD_CALL, "kernel '%s' has %u threads, not a multiple of 32", entry, k->threads); return faults.total; }
  std::vector<Region> regions(count); std::vector<Bound> bound(count);
  for (uint i = 0; i < count; i++) {
    Region& r = regions[i]; const Arg& a = args[i];
    if (k->params[i] && k->params[i] != a.bytes) { fail(BAD_CALL, "the parameters of '%s' have %zu bytes, not %zu", entry, k->params[i], a.bytes); return faults.total; }
    r.base = (char*)a.data; r.bytes = a.bytes; r.name = a.name; r.alignment = a.alignment; r.tracked = a.writable; r.initialised = a.initialised;
    if (r.tracked) r.reset();
    bound[i] = {&a, &r};
  }
  static thread_local uint runs = 0;
  struct Call { const Kernel* k; const Bound* a; } cl{k, bound.data()};
  m.body = [](void* p) { Call* q = (Call*)p; q->k->tramp(q->k->fn, q->a); }; m.arg = &cl; m.kernel = k->name; m.threads = k->threads; m.run = ++runs;
  if (m.fibers.size() < m.threads) m.fibers.resize(m.threads);
  uint random = seed, group = 0; const Flushed flushed(flush != 0);
  for (uint z = 0; z < groups[2]; z++) for (uint y = 0; y < groups[1]; y++) for (uint x = 0; x < groups[0]; x++, group++) {
    m.x = x; m.y = y; m.z = z; m.group = group; m.tg_epoch = m.device_epoch = m.arrived = m.tg_bytes = 0; m.generation++;
    m.simdgroups.assign(m.threads / 32, Simdgroup{});
    for (uint i = 0; i < m.threads; i++) { Fiber& f = m.fibers[i]; f.tid = i; f.sg = i / 32; f.lane = i % 32; fiber_reset(&m, f); }
    run_group(m, m.threads, random, seed); m.f = nullptr;
    if (declared != ~0u && m.tg_bytes != declared) { fail(THREADGROUP_MEMORY, "the text of kernel %s states %u bytes of threadgroup memory; it takes %u", entry, declared, m.tg_bytes); return faults.total; }
  }
  return faults.total;
}
