#include "entry_table.h"

#include "count_log.h"
#include "event_writer.h"
#include "new_entry_points.h"
#include "no_log.h"
#include "recorder.h"
#include "sample_log.h"
#include "stacked_log.h"
#include "touch_log.h"

namespace heapspy {
namespace {

// The entry point `member` before the recording has begun: begins it, and calls what stands in the table then.
template <auto member>
struct First;
template <class Result, class... Arguments, Result (*EntryTable::*member)(Arguments...)>
struct First<member> {
  static Result call(Arguments... arguments) { return ((start_of_process() ? entry : unrecorded).*member)(arguments...); }
};

template <class Log>
void fill(EntryTable& table) {
#define X(result, name, parameters, arguments) table.name = EntryPoints<Log>::name;
  HEAPSPY_C_ENTRY_POINTS(X)
#undef X
#define X(result, name, parameters, arguments) table.name = NewEntryPoints<Log>::name;
  HEAPSPY_NEW_ENTRY_POINTS(X)
#undef X
}

}  // namespace

constinit EntryTable entry = {
#define X(result, name, parameters, arguments) First<&EntryTable::name>::call,
    HEAPSPY_ENTRY_POINTS(X)
#undef X
};
constinit EntryTable unrecorded{};

void enter_mode(format::Mode mode, format::Stacks stacks) {
  const bool stacked = stacks != format::Stacks::none;
  switch (mode) {
    case format::Mode::full:
      if (options.touch) return stacked ? fill<TouchLog<StackedLog<true>>>(entry) : fill<TouchLog<EventLog<true>>>(entry);
      return stacked ? fill<StackedLog<true>>(entry) : fill<EventLog<true>>(entry);
    case format::Mode::ring: return stacked ? fill<StackedLog<false>>(entry) : fill<EventLog<false>>(entry);
    case format::Mode::sample: return stacked ? fill<StackedSampleLog>(entry) : fill<SampleLog>(entry);
    case format::Mode::count: return fill<CountLog>(entry);
  }
}

void enter_no_mode() { fill<NoLog>(entry); }

void pass_on_while_beginning() { fill<NoLog>(unrecorded); }

void* leave_bootstrap(void* block, size_t bytes) {
  void* fresh = entry.malloc(bytes);
  const size_t old = bootstrap::usable_bytes(block);
  if (fresh) __builtin_memcpy(fresh, block, old < bytes ? old : bytes);
  return fresh;
}

}  // namespace heapspy
