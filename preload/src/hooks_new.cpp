// operator new and delete, every form. The symbols are exported under their mangled names: this library links no C++ runtime.
//
// Whose operator new is next decides how it is called, so that each call is one event:
//   plain        libstdc++'s or libc++'s, or none found (a library that was dlopen'ed later brings its own): it is malloc with
//   a
//                loop around it, so the next malloc is called; only when that fails the real one runs, unguarded, to call the
//                new_handler and throw.
//   allocator's  the library that answers malloc has its own (jemalloc, tcmalloc, mimalloc): called as it is.
//   foreign      somebody else's: its nothrow form is called with our hooks guarded (it may call malloc); if that gave null,
//   the
//                throwing one is called with our hooks open, because an exception passes through our frame.
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#include <initializer_list>

#include "event_writer.h"
#include "next_allocator.h"
#include "text.h"

using namespace heapspy;
using format::Operation;
using format::Origin;
using format::Release;

#define HEAPSPY_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

enum class Provider : int { unknown, plain, allocators, foreign };

Provider provider = Provider::unknown;

void* next_symbol(const char* name) {
  if (void* found = dlsym(RTLD_NEXT, name)) return found;
  // Opened later, so not in the search order after us.
  for (const char* library : {"libstdc++.so.6", "libc++.so.1"})
    if (void* handle = dlopen(library, RTLD_NOLOAD | RTLD_LAZY))
      if (void* found = dlsym(handle, name)) return found;
  return nullptr;
}

[[gnu::cold, gnu::noinline]] Provider find_provider() {
  Provider found = Provider::plain;
  if (void* operator_new = dlsym(RTLD_NEXT, "_Znwm")) {
    Dl_info where{}, allocator{};
    dladdr(operator_new, &where);
    dladdr(reinterpret_cast<void*>(next_allocator.malloc), &allocator);
    const char* file = where.dli_fname ? where.dli_fname : "";
    bool runtime = false;
    for (; *file; file++) runtime = runtime || begins_with(file, "libstdc++") || begins_with(file, "libc++");
    if (!runtime) found = where.dli_fbase == allocator.dli_fbase ? Provider::allocators : Provider::foreign;
  }
  provider = found;
  return found;
}

Provider who_provides() { return HEAPSPY_UNLIKELY(provider == Provider::unknown) ? find_provider() : provider; }

bool plainly() { return __builtin_expect(who_provides() == Provider::plain, 1); }

// Next definition of one form, looked up when it is first needed.
template <class Function>
Function next_form(Function& cached, const char* name) {
  if (HEAPSPY_UNLIKELY(!cached)) cached = reinterpret_cast<Function>(next_symbol(name));
  return cached;
}

// Throwing forms return no null, nothrow ones may.
void* record_new(void* block, size_t bytes) {
  return write_allocation(Operation::operator_new, Origin::operator_new, block, bytes);
}
void* record_aligned_new(void* block, size_t bytes, size_t alignment) {
  if (!block) return write_failed(Origin::operator_new_aligned, bytes);
  return write_long_allocation(Origin::operator_new_aligned, 63u - static_cast<unsigned>(__builtin_clzll(alignment | 1)), block,
                               bytes);
}

// What libstdc++'s does first (libsupc++ new_op.cc, new_opa.cc).
void* plain_new(size_t bytes) { return next_allocator.malloc(bytes ? bytes : 1); }
void* plain_aligned_new(size_t bytes, size_t alignment) {
  if (alignment < sizeof(void*)) alignment = sizeof(void*);
  const size_t rounded = (bytes + alignment - 1) & ~(alignment - 1);
  return next_allocator.aligned_alloc(alignment, rounded >= bytes ? rounded : bytes);
}

template <class Call>
auto guarded(Call call) {
  Guarded guard;
  return call();
}

}  // namespace

// Expanded once per form: symbol, its nothrow partner, parameters.
#define HEAPSPY_NEW(symbol, nothrow_symbol)                                                                       \
  HEAPSPY_EXPORT void* symbol(size_t bytes) {                                                                     \
    static void* (*next)(size_t);                                                                                 \
    static void* (*next_nothrow)(size_t, const void*);                                                            \
    if (plainly()) {                                                                                              \
      void* block = plain_new(bytes);                                                                             \
      if (__builtin_expect(block != nullptr, 1)) return record_new(block, bytes);                                 \
      return next_form(next, #symbol)(bytes);                                                                     \
    }                                                                                                             \
    if (provider == Provider::allocators) return record_new(next_form(next, #symbol)(bytes), bytes);              \
    static const char nothrow = 0;                                                                                \
    if (next_form(next_nothrow, #nothrow_symbol))                                                                 \
      if (void* block = guarded([&] { return next_nothrow(bytes, &nothrow); })) return record_new(block, bytes);  \
    return next_form(next, #symbol)(bytes);                                                                       \
  }                                                                                                               \
  HEAPSPY_EXPORT void* nothrow_symbol(size_t bytes, const void* tag) {                                            \
    static void* (*next)(size_t, const void*);                                                                    \
    if (plainly()) {                                                                                              \
      void* block = plain_new(bytes);                                                                             \
      if (__builtin_expect(block != nullptr, 1)) return record_new(block, bytes);                                 \
      return next_form(next, #nothrow_symbol) ? next(bytes, tag) : nullptr;                                       \
    }                                                                                                             \
    if (provider == Provider::allocators) return record_new(next_form(next, #nothrow_symbol)(bytes, tag), bytes); \
    return record_new(guarded([&] { return next_form(next, #nothrow_symbol)(bytes, tag); }), bytes);              \
  }
HEAPSPY_NEW(_Znwm, _ZnwmRKSt9nothrow_t)
HEAPSPY_NEW(_Znam, _ZnamRKSt9nothrow_t)

#define HEAPSPY_ALIGNED_NEW(symbol, nothrow_symbol)                                                                    \
  HEAPSPY_EXPORT void* symbol(size_t bytes, size_t alignment) {                                                        \
    static void* (*next)(size_t, size_t);                                                                              \
    static void* (*next_nothrow)(size_t, size_t, const void*);                                                         \
    if (plainly()) {                                                                                                   \
      if (void* block = plain_aligned_new(bytes, alignment)) return record_aligned_new(block, bytes, alignment);       \
      return next_form(next, #symbol)(bytes, alignment);                                                               \
    }                                                                                                                  \
    if (provider == Provider::allocators)                                                                              \
      return record_aligned_new(next_form(next, #symbol)(bytes, alignment), bytes, alignment);                         \
    static const char nothrow = 0;                                                                                     \
    if (next_form(next_nothrow, #nothrow_symbol))                                                                      \
      if (void* block = guarded([&] { return next_nothrow(bytes, alignment, &nothrow); }))                             \
        return record_aligned_new(block, bytes, alignment);                                                            \
    return next_form(next, #symbol)(bytes, alignment);                                                                 \
  }                                                                                                                    \
  HEAPSPY_EXPORT void* nothrow_symbol(size_t bytes, size_t alignment, const void* tag) {                               \
    static void* (*next)(size_t, size_t, const void*);                                                                 \
    if (plainly()) {                                                                                                   \
      if (void* block = plain_aligned_new(bytes, alignment)) return record_aligned_new(block, bytes, alignment);       \
      return next_form(next, #nothrow_symbol) ? next(bytes, alignment, tag) : nullptr;                                 \
    }                                                                                                                  \
    if (provider == Provider::allocators)                                                                              \
      return record_aligned_new(next_form(next, #nothrow_symbol)(bytes, alignment, tag), bytes, alignment);            \
    return record_aligned_new(guarded([&] { return next_form(next, #nothrow_symbol)(bytes, alignment, tag); }), bytes, \
                              alignment);                                                                              \
  }
HEAPSPY_ALIGNED_NEW(_ZnwmSt11align_val_t, _ZnwmSt11align_val_tRKSt9nothrow_t)
HEAPSPY_ALIGNED_NEW(_ZnamSt11align_val_t, _ZnamSt11align_val_tRKSt9nothrow_t)

// Recorded before the real call, like free. Plain: libstdc++'s are all free (del_op*.cc).
#define HEAPSPY_DELETE(symbol, parameters, arguments)                                                                    \
  HEAPSPY_EXPORT void symbol parameters {                                                                                \
    static void(*next) parameters;                                                                                       \
    if (HEAPSPY_UNLIKELY(!block || bootstrap::owns(block))) return;                                                      \
    const bool plain = plainly();                                                                                        \
    if (__builtin_expect(plain, 1)) return write_release_and_free(Release::operator_delete, block, next_allocator.free); \
    write_release_and_free(Release::operator_delete, block, [](void*) {});                                               \
    next_form(next, #symbol);                                                                                            \
    if (!next) return guarded([&] { next_allocator.free(block); });                                                      \
    if (provider == Provider::allocators) return next arguments;                                                         \
    guarded([&] { next arguments; });                                                                                    \
  }
HEAPSPY_DELETE(_ZdlPv, (void* block), (block))
HEAPSPY_DELETE(_ZdaPv, (void* block), (block))
HEAPSPY_DELETE(_ZdlPvm, (void* block, size_t bytes), (block, bytes))
HEAPSPY_DELETE(_ZdaPvm, (void* block, size_t bytes), (block, bytes))
HEAPSPY_DELETE(_ZdlPvRKSt9nothrow_t, (void* block, const void* tag), (block, tag))
HEAPSPY_DELETE(_ZdaPvRKSt9nothrow_t, (void* block, const void* tag), (block, tag))
HEAPSPY_DELETE(_ZdlPvSt11align_val_t, (void* block, size_t alignment), (block, alignment))
HEAPSPY_DELETE(_ZdaPvSt11align_val_t, (void* block, size_t alignment), (block, alignment))
HEAPSPY_DELETE(_ZdlPvmSt11align_val_t, (void* block, size_t bytes, size_t alignment), (block, bytes, alignment))
HEAPSPY_DELETE(_ZdaPvmSt11align_val_t, (void* block, size_t bytes, size_t alignment), (block, bytes, alignment))
HEAPSPY_DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void* block, size_t alignment, const void* tag), (block, alignment, tag))
HEAPSPY_DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void* block, size_t alignment, const void* tag), (block, alignment, tag))
