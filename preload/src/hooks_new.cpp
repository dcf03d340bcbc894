// operator new and delete, every form. The symbols are exported under their mangled names: this library links no C++ runtime.
//
// Whose form is next decides how it is called, so that each call is one event. Decided form by form, because allocators bring
// some of them only (mimalloc has no nothrow delete) and libstdc++'s answer for the rest:
//   plain    libstdc++'s or libc++'s, or none found (a library that was dlopen'ed later brings its own): it is malloc or free
//   with
//            a loop around it, so the next malloc is called; only when that fails the real one runs, unguarded, to call the
//            new_handler and throw.
//   special  an allocator's or a program's own. It may call malloc or free in turn (jemalloc's aligned new calls aligned_alloc
//            through the symbol table), so our hooks are guarded meanwhile. An exception must not pass through the guard: the
//            nothrow form is called, and if that gave null, the throwing one with our hooks open.
//   front    the program (or a library before us) has a malloc or an operator new of its own: the forms that it left alone lead
//            to those, and a block of ours must not meet them. Each form goes on to the next one, and what reaches malloc and
//            free here is recorded there.
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

enum class Provider : int { unknown, plain, special, front };

bool is_runtime_library(const char* file) {
  for (; *file; file++)
    if (begins_with(file, "libstdc++") || begins_with(file, "libc++")) return true;
  return false;
}

// True where every call of these names by the program comes to us first.
bool nobody_in_front();

// The next definition of one form of operator new or delete.
template <class Function>
struct Form {
  const char* symbol;
  Provider provider = Provider::unknown;
  Function next = nullptr;

  bool plain() {
    return __builtin_expect((HEAPSPY_UNLIKELY(provider == Provider::unknown) ? resolve() : provider) == Provider::plain, 1);
  }

  HEAPSPY_COLD Provider resolve() {
    Provider found = Provider::plain;
    next = reinterpret_cast<Function>(dlsym(RTLD_NEXT, symbol));
    Dl_info where{};
    if (!nobody_in_front())
      found = Provider::front;
    else if (next && dladdr(reinterpret_cast<void*>(next), &where) && where.dli_fname && !is_runtime_library(where.dli_fname))
      found = Provider::special;
    return provider = found;
  }

  // The one that throws or calls the new_handler, where plain malloc gave nothing. Of a runtime that was opened later if need
  // be.
  HEAPSPY_COLD Function real() {
    for (const char* library : {"libstdc++.so.6", "libc++.so.1"}) {
      if (next) break;
      if (void* handle = dlopen(library, RTLD_NOLOAD | RTLD_LAZY)) next = reinterpret_cast<Function>(dlsym(handle, symbol));
    }
    return next;
  }
};

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

const char nothrow_tag = 0;

}  // namespace

// Declared by their mangled names here, defined below.
HEAPSPY_EXPORT void* _Znwm(size_t);
HEAPSPY_EXPORT void* _Znam(size_t);
HEAPSPY_EXPORT void* _ZnwmSt11align_val_t(size_t, size_t);
HEAPSPY_EXPORT void _ZdlPv(void*);
HEAPSPY_EXPORT void _ZdaPv(void*);
HEAPSPY_EXPORT void _ZdlPvSt11align_val_t(void*, size_t);

namespace {

bool nobody_in_front() {
  static int known = -1;
  if (known >= 0) return known;
  const struct {
    const char* name;
    void* ours;
  } kNames[] = {{"malloc", reinterpret_cast<void*>(&malloc)},
                {"free", reinterpret_cast<void*>(&free)},
                {"_Znwm", reinterpret_cast<void*>(&_Znwm)},
                {"_Znam", reinterpret_cast<void*>(&_Znam)},
                {"_ZnwmSt11align_val_t", reinterpret_cast<void*>(&_ZnwmSt11align_val_t)},
                {"_ZdlPv", reinterpret_cast<void*>(&_ZdlPv)},
                {"_ZdaPv", reinterpret_cast<void*>(&_ZdaPv)},
                {"_ZdlPvSt11align_val_t", reinterpret_cast<void*>(&_ZdlPvSt11align_val_t)}};
  int none = 1;
  for (const auto& name : kNames)
    if (dlsym(RTLD_DEFAULT, name.name) != name.ours) none = 0;
  known = none;
  return known != 0;
}

}  // namespace

// Expanded once per form: symbol, its nothrow partner, more parameters.
#define HEAPSPY_NEW(symbol, nothrow_symbol)                                                                          \
  HEAPSPY_EXPORT void* symbol(size_t bytes) {                                                                        \
    static Form<void* (*)(size_t)> form{#symbol};                                                                    \
    static Form<void* (*)(size_t, const void*)> nothrow{#nothrow_symbol};                                            \
    if (form.plain()) {                                                                                              \
      void* block = plain_new(bytes);                                                                                \
      return __builtin_expect(block != nullptr, 1) ? record_new(block, bytes) : form.real()(bytes);                  \
    }                                                                                                                \
    if (form.provider == Provider::front) return form.real()(bytes);                                                 \
    if (!nothrow.plain())                                                                                            \
      if (void* block = guarded([&] { return nothrow.next(bytes, &nothrow_tag); })) return record_new(block, bytes); \
    return form.next(bytes);                                                                                         \
  }                                                                                                                  \
  HEAPSPY_EXPORT void* nothrow_symbol(size_t bytes, const void* tag) {                                               \
    static Form<void* (*)(size_t, const void*)> form{#nothrow_symbol};                                               \
    if (form.plain()) {                                                                                              \
      void* block = plain_new(bytes);                                                                                \
      if (__builtin_expect(block != nullptr, 1)) return record_new(block, bytes);                                    \
      return form.real() ? form.next(bytes, tag) : nullptr;                                                          \
    }                                                                                                                \
    if (form.provider == Provider::front) return form.real()(bytes, tag);                                            \
    return record_new(guarded([&] { return form.next(bytes, tag); }), bytes);                                        \
  }
HEAPSPY_NEW(_Znwm, _ZnwmRKSt9nothrow_t)
HEAPSPY_NEW(_Znam, _ZnamRKSt9nothrow_t)

#define HEAPSPY_ALIGNED_NEW(symbol, nothrow_symbol)                                                              \
  HEAPSPY_EXPORT void* symbol(size_t bytes, size_t alignment) {                                                  \
    static Form<void* (*)(size_t, size_t)> form{#symbol};                                                        \
    static Form<void* (*)(size_t, size_t, const void*)> nothrow{#nothrow_symbol};                                \
    if (form.plain()) {                                                                                          \
      void* block = plain_aligned_new(bytes, alignment);                                                         \
      return block ? record_aligned_new(block, bytes, alignment) : form.real()(bytes, alignment);                \
    }                                                                                                            \
    if (form.provider == Provider::front) return form.real()(bytes, alignment);                                  \
    if (!nothrow.plain())                                                                                        \
      if (void* block = guarded([&] { return nothrow.next(bytes, alignment, &nothrow_tag); }))                   \
        return record_aligned_new(block, bytes, alignment);                                                      \
    return form.next(bytes, alignment);                                                                          \
  }                                                                                                              \
  HEAPSPY_EXPORT void* nothrow_symbol(size_t bytes, size_t alignment, const void* tag) {                         \
    static Form<void* (*)(size_t, size_t, const void*)> form{#nothrow_symbol};                                   \
    if (form.plain()) {                                                                                          \
      if (void* block = plain_aligned_new(bytes, alignment)) return record_aligned_new(block, bytes, alignment); \
      return form.real() ? form.next(bytes, alignment, tag) : nullptr;                                           \
    }                                                                                                            \
    if (form.provider == Provider::front) return form.real()(bytes, alignment, tag);                             \
    return record_aligned_new(guarded([&] { return form.next(bytes, alignment, tag); }), bytes, alignment);      \
  }
HEAPSPY_ALIGNED_NEW(_ZnwmSt11align_val_t, _ZnwmSt11align_val_tRKSt9nothrow_t)
HEAPSPY_ALIGNED_NEW(_ZnamSt11align_val_t, _ZnamSt11align_val_tRKSt9nothrow_t)

// Recorded before the real call, like free. Plain: libstdc++'s are all free (del_op*.cc).
#define HEAPSPY_DELETE(delete_symbol, parameters, arguments)                                               \
  HEAPSPY_EXPORT void delete_symbol parameters {                                                           \
    static Form<void(*) parameters> form{#delete_symbol};                                                  \
    if (HEAPSPY_UNLIKELY(!block || bootstrap::owns(block))) return;                                        \
    if (form.plain()) return write_release_and_free(Release::operator_delete, block, next_allocator.free); \
    if (form.provider == Provider::front) return form.real() arguments;                                    \
    write_release_and_free(Release::operator_delete, block, [](void*) {});                                 \
    guarded([&] { form.next arguments; });                                                                 \
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
