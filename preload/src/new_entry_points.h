// operator new and delete, every form, for each log. The symbols are exported under their mangled names: this library links no
// C++ runtime.
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
#pragma once
#include <stdint.h>

#include "entry_points.h"
#include "new_forms.h"
#include "no_log.h"
#include "thread_state.h"

namespace heapspy {

// What libstdc++'s does first (libsupc++ new_op.cc, new_opa.cc).
inline void* plain_new(size_t bytes) { return next_allocator.malloc(bytes ? bytes : 1); }
inline void* plain_aligned_new(size_t bytes, size_t alignment) {
  if (alignment < sizeof(void*)) alignment = sizeof(void*);
  const size_t rounded = (bytes + alignment - 1) & ~(alignment - 1);
  return next_allocator.aligned_alloc(alignment, rounded >= bytes ? rounded : bytes);
}

template <class Call>
auto guarded(Call call) {
  Guarded guard;
  return call();
}

inline constexpr char kNothrowTag = 0;

template <class Log>
struct NewEntryPoints {
  static constexpr bool kPassesOn = __is_same(Log, NoLog);
  // Guarded: the form that is special calls another by the symbol table, and so us. It must come to the one behind, or the two
  // would call each other for ever.
  static bool passes_on(AnyForm& form) { return kPassesOn || Guarded::is_now() || form.provider() == Provider::front; }

  // Throwing forms return no null, nothrow ones may.
  static HEAPSPY_HOT void* record_new(void* block, size_t bytes) {
    return Log::allocation(format::Operation::operator_new, format::Origin::operator_new, block, bytes);
  }
  static HEAPSPY_HOT void* record_aligned_new(void* block, size_t bytes, size_t alignment) {
    return Log::aligned_allocation(format::Origin::operator_new_aligned, log2_of(alignment), block, bytes);
  }

// Expanded once per form: symbol, its nothrow partner, more parameters. Each is a fast path for `plain`, and a cold rest.
#define HEAPSPY_NEW(symbol, nothrow_symbol)                                                                            \
  static void* symbol(size_t bytes) {                                                                                  \
    if (new_forms.symbol.is_plain()) {                                                                                 \
      void* block = plain_new(bytes);                                                                                  \
      return __builtin_expect(block != nullptr, 1) ? record_new(block, bytes) : new_forms.symbol.real()(bytes);        \
    }                                                                                                                  \
    return symbol##_rarely(bytes);                                                                                     \
  }                                                                                                                    \
  HEAPSPY_COLD static void* symbol##_rarely(size_t bytes) {                                                            \
    auto& form = new_forms.symbol;                                                                                     \
    auto& nothrow = new_forms.nothrow_symbol;                                                                          \
    if (form.plain()) {                                                                                                \
      void* block = plain_new(bytes);                                                                                  \
      return block ? record_new(block, bytes) : form.real()(bytes);                                                    \
    }                                                                                                                  \
    if (passes_on(form)) return form.real()(bytes);                                                                    \
    if (!nothrow.plain())                                                                                              \
      if (void* block = guarded([&] { return nothrow.next()(bytes, &kNothrowTag); })) return record_new(block, bytes); \
    return form.next()(bytes);                                                                                         \
  }                                                                                                                    \
  static void* nothrow_symbol(size_t bytes, const void* tag) {                                                         \
    auto& form = new_forms.nothrow_symbol;                                                                             \
    if (form.plain()) {                                                                                                \
      void* block = plain_new(bytes);                                                                                  \
      if (__builtin_expect(block != nullptr, 1)) return record_new(block, bytes);                                      \
      return form.real() ? form.next()(bytes, tag) : nullptr;                                                          \
    }                                                                                                                  \
    if (passes_on(form)) return form.real()(bytes, tag);                                                               \
    return record_new(guarded([&] { return form.next()(bytes, tag); }), bytes);                                        \
  }
  HEAPSPY_NEW(_Znwm, _ZnwmRKSt9nothrow_t)
  HEAPSPY_NEW(_Znam, _ZnamRKSt9nothrow_t)

#define HEAPSPY_ALIGNED_NEW(symbol, nothrow_symbol)                                                              \
  static void* symbol(size_t bytes, size_t alignment) {                                                          \
    auto& form = new_forms.symbol;                                                                               \
    auto& nothrow = new_forms.nothrow_symbol;                                                                    \
    if (form.plain()) {                                                                                          \
      void* block = plain_aligned_new(bytes, alignment);                                                         \
      return block ? record_aligned_new(block, bytes, alignment) : form.real()(bytes, alignment);                \
    }                                                                                                            \
    if (passes_on(form)) return form.real()(bytes, alignment);                                                   \
    if (!nothrow.plain())                                                                                        \
      if (void* block = guarded([&] { return nothrow.next()(bytes, alignment, &kNothrowTag); }))                 \
        return record_aligned_new(block, bytes, alignment);                                                      \
    return form.next()(bytes, alignment);                                                                        \
  }                                                                                                              \
  static void* nothrow_symbol(size_t bytes, size_t alignment, const void* tag) {                                 \
    auto& form = new_forms.nothrow_symbol;                                                                       \
    if (form.plain()) {                                                                                          \
      if (void* block = plain_aligned_new(bytes, alignment)) return record_aligned_new(block, bytes, alignment); \
      return form.real() ? form.next()(bytes, alignment, tag) : nullptr;                                         \
    }                                                                                                            \
    if (passes_on(form)) return form.real()(bytes, alignment, tag);                                              \
    return record_aligned_new(guarded([&] { return form.next()(bytes, alignment, tag); }), bytes, alignment);    \
  }
  HEAPSPY_ALIGNED_NEW(_ZnwmSt11align_val_t, _ZnwmSt11align_val_tRKSt9nothrow_t)
  HEAPSPY_ALIGNED_NEW(_ZnamSt11align_val_t, _ZnamSt11align_val_tRKSt9nothrow_t)

// Recorded before the real call, like free. Plain: libstdc++'s are all free (del_op*.cc).
#define HEAPSPY_DELETE(delete_symbol, parameters, arguments)                                                      \
  static void delete_symbol parameters {                                                                          \
    if (HEAPSPY_UNLIKELY(!block || bootstrap::owns(block))) return;                                               \
    if (new_forms.delete_symbol.is_plain())                                                                       \
      return Log::release_and_free(format::Release::operator_delete, block, next_allocator.free);                 \
    delete_symbol##_rarely arguments;                                                                             \
  }                                                                                                               \
  HEAPSPY_COLD static void delete_symbol##_rarely parameters {                                                    \
    auto& form = new_forms.delete_symbol;                                                                         \
    if (form.plain()) return Log::release_and_free(format::Release::operator_delete, block, next_allocator.free); \
    if (passes_on(form)) return form.real() arguments;                                                            \
    Log::release_and_free(format::Release::operator_delete, block, [](void*) {});                                 \
    guarded([&] { form.next() arguments; });                                                                      \
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
#undef HEAPSPY_NEW
#undef HEAPSPY_ALIGNED_NEW
#undef HEAPSPY_DELETE
};

}  // namespace heapspy
