// Whose operator new or delete is next, form by form.
#pragma once
#include "entry_table.h"
#include "hot.h"

namespace heapspy {

// How the next definition of a form is called (new_entry_points.h).
enum class Provider : int { unknown, plain, special, front };

class AnyForm {
 public:
  constexpr explicit AnyForm(const char* symbol) : symbol_(symbol) {}
  Provider provider() { return HEAPSPY_UNLIKELY(provider_ == Provider::unknown) ? resolve() : provider_; }
  bool is_plain() const { return __builtin_expect(provider_ == Provider::plain, 1); }  // false too where not yet known
  bool plain() { return __builtin_expect(provider() == Provider::plain, 1); }

 protected:
  HEAPSPY_COLD Provider resolve();
  // The one that throws or calls the new_handler, where plain malloc gave nothing. Of a runtime that was opened later if need
  // be; null where there is none.
  HEAPSPY_COLD void* find_real();

  const char* symbol_;
  void* next_ = nullptr;
  Provider provider_ = Provider::unknown;
};

template <class Function>
struct Form : AnyForm {
  using AnyForm::AnyForm;
  // Where the provider is special or front.
  Function next() const { return reinterpret_cast<Function>(next_); }
  Function real() { return reinterpret_cast<Function>(next_ ? next_ : find_real()); }
};

struct NewForms {
#define X(result, name, parameters, arguments) Form<result(*) parameters> name{#name};
  HEAPSPY_NEW_ENTRY_POINTS(X)
#undef X
};
extern NewForms new_forms;

}  // namespace heapspy
