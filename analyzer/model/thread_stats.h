// What each thread allocated, and who freed it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/model/size_histogram.h"
#include "analyzer/model/thread_table.h"
#include "analyzer/trace/event.h"

namespace heapspy::model {

// What a thread was called from `tick` on (where only a snapshot knew: since then at the latest).
struct ThreadNaming {
  trace::Tick tick = 0;
  std::string name;
};
inline constexpr std::size_t kMostNames = 64;

// `report --json`: threads[]. Bytes are bytes asked for. A block belongs to the thread that allocated it, or that
// reallocated it last.
struct ThreadFigures {
  trace::ThreadId id = trace::ThreadId::none;
  std::uint32_t tid = 0;                  // the kernel's; 0 unknown
  std::string name;                       // the last one known
  std::vector<ThreadNaming> names;        // all that it had, by time; at most kMostNames …
  std::uint64_t names_left_out = 0;       // … and so many before them
  std::optional<std::string> java_group;  // nullopt: it is none of Java's, or not known
  std::optional<bool> java_daemon;
  std::optional<trace::Tick> start;                                         // when its first event or its start was recorded
  std::optional<trace::Tick> end;                                           // nullopt: lived on at the end of the trace
  std::uint64_t stack_address = 0;                                          // somewhere on its stack; 0 unknown
  std::uint64_t allocations = 0, frees = 0, reallocations = 0, failed = 0;  // calls that it made
  std::uint64_t bytes_allocated = 0;
  std::uint64_t live_bytes = 0, live_blocks = 0, peak_live_bytes = 0;  // its blocks, whoever ends them
  std::uint64_t temporary = 0;                                         // its blocks, freed by its very next event
  std::uint64_t freed_by_others = 0;                                   // blocks of its own that another thread freed
  std::uint64_t freed_for_others = 0;                                  // blocks of others that it freed
  std::vector<SizeRow> sizes;                                          // allocations and bytes only
};

// Memory: about 200 bytes a thread, and 16 bytes for each bucket of sizes up to the largest that it used.
class ThreadStats final : public trace::Observer {
 public:
  std::vector<ThreadFigures> figures() const;  // by id; threads that the trace never mentions are left out
  std::string name(trace::ThreadId) const;     // the last one known so far

  void allocated(const trace::Block&, trace::Tick) override;
  void released(const trace::Block&, trace::ThreadId by, trace::Release, trace::Tick) override;
  void resized(const trace::Block& before, const trace::Block& after, trace::ThreadId by, trace::Tick) override;
  void vanished(const trace::Block&, trace::Tick) override;
  void release_unseen(const trace::Block&, trace::ThreadId said) override;
  void failed(trace::ThreadId, trace::Origin, std::uint64_t size, trace::Tick) override;
  void unknown_release(trace::ThreadId, std::uint64_t address, trace::Release, bool inherited, trace::Tick) override;
  void reattributed(const trace::Block&, trace::ThreadId said, trace::ThreadId is) override;
  void thread_started(trace::ThreadId, std::uint32_t tid, std::string_view name, std::uint64_t stack_address,
                      trace::Tick) override;
  void thread_named(trace::ThreadId, std::string_view name, trace::Tick) override;
  void thread_is_java(trace::ThreadId, std::string_view group, bool daemon) override;
  void thread_ended(trace::ThreadId, trace::Tick) override;
  void snapshot_taken(const trace::Snapshot&) override;

 private:
  struct Sizes {
    std::uint64_t allocations = 0, bytes = 0;
  };
  struct Thread {
    std::uint32_t tid = 0;
    bool seen = false, ended = false;
    trace::Tick start = 0, end = 0;
    std::uint64_t stack_address = 0, newest = 0;
    std::uint64_t allocations = 0, frees = 0, reallocations = 0, failed = 0, bytes_allocated = 0;
    std::uint64_t live_bytes = 0, live_blocks = 0, peak_live_bytes = 0, temporary = 0;
    std::uint64_t freed_by_others = 0, freed_for_others = 0;
    std::string name;
    std::string kernel_name;  // as it was seen last
    std::vector<ThreadNaming> names;
    std::uint64_t names_left_out = 0;
    std::string java_group;
    bool is_java = false, java_daemon = false;
    std::vector<Sizes> sizes;  // by bucket
  };
  Thread& at(trace::ThreadId, trace::Tick);  // of an event of its own
  static Sizes& sizes_of(Thread&, std::uint64_t size);
  static void is_called(Thread&, std::string_view name, trace::Tick);
  static void hold(Thread&, std::uint64_t size);

  ThreadTable<Thread> threads_;
};

}  // namespace heapspy::model
