// Builds traces for tests and benches, byte by byte as the recorder would leave them.
//
//   TraceBuilder trace;
//   auto& main = trace.thread("main", 100);            // emits its stamp and thread_start
//   main.stamp(10).malloc(0x1000, 24).free(0x1000);
//   trace.write(path);
//
// Ticks are nanoseconds unless header().tick_kind is changed. Not thread-safe. References to threads live as long as
// the builder.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/trace/snapshot.h"
#include "heapspy/format/layout.h"
#include "heapspy/format/record.h"

namespace heapspy::test {

using trace::Tick;

// The stream of one thread. Records stand in the order of the calls.
class ThreadBuilder {
 public:
  ThreadBuilder(std::uint32_t id, std::uint32_t tid) : id_(id), tid_(tid) {}
  ThreadBuilder(const ThreadBuilder&) = delete;  // hold it by reference
  ThreadBuilder& operator=(const ThreadBuilder&) = delete;

  ThreadBuilder& stamp(Tick);
  ThreadBuilder& stamp_off_cpu(Tick);
  ThreadBuilder& malloc(std::uint64_t address, std::uint64_t size);
  ThreadBuilder& calloc(std::uint64_t address, std::uint64_t size);
  ThreadBuilder& operator_new(std::uint64_t address, std::uint64_t size);
  ThreadBuilder& realloc_new(std::uint64_t address, std::uint64_t size);  // realloc(NULL, size)
  ThreadBuilder& aligned(std::uint64_t address, std::uint64_t size, unsigned log2_alignment = 6);
  ThreadBuilder& operator_new_aligned(std::uint64_t address, std::uint64_t size, unsigned log2_alignment = 6);
  ThreadBuilder& free(std::uint64_t address);
  ThreadBuilder& operator_delete(std::uint64_t address);
  ThreadBuilder& realloc(std::uint64_t before, std::uint64_t after, std::uint64_t size);  // begin and end
  ThreadBuilder& realloc_begin(std::uint64_t address);
  ThreadBuilder& realloc_end(std::uint64_t address, std::uint64_t size);
  ThreadBuilder& realloc_failed(std::uint64_t size);  // ends the realloc_begin before it
  ThreadBuilder& realloc_freed();                     // ends the realloc_begin before it
  ThreadBuilder& failed(format::Origin, std::uint64_t size);
  ThreadBuilder& start(std::string_view name, std::uint64_t stack_address = 0);
  ThreadBuilder& name(std::string_view, std::uint32_t tid = 0);                     // tid 0: its own
  ThreadBuilder& java(std::string_view group, bool daemon, std::uint32_t tid = 0);  // tid 0: its own
  ThreadBuilder& end();
  ThreadBuilder& mark(std::string_view);
  ThreadBuilder& stack(std::uint64_t cell);  // of the allocations that follow
  ThreadBuilder& paused();
  ThreadBuilder& resumed();

  ThreadBuilder& word(std::uint64_t);                                  // any word
  ThreadBuilder& chunk();                                              // ends the chunk here
  ThreadBuilder& lose(std::uint64_t words, std::uint64_t events = 0);  // words that never reached the file

  std::uint32_t id() const { return id_; }
  std::uint32_t tid() const { return tid_; }
  std::uint64_t words() const { return words_.size(); }

 private:
  friend class TraceBuilder;
  struct Cut {
    std::uint64_t at;    // index into words_ before which a chunk ends
    std::uint64_t lost;  // words lost there
    Tick tick;           // of the last stamp before it
  };
  ThreadBuilder& record(format::Kind, std::uint64_t payload, std::initializer_list<std::uint64_t> numbers,
                        std::string_view text = {});
  ThreadBuilder& allocation(format::Origin, format::Operation, std::uint64_t address, std::uint64_t size);

  std::uint32_t id_, tid_;
  std::vector<std::uint64_t> words_;
  std::vector<Cut> cuts_;
  std::uint64_t lost_events_ = 0;
  Tick first_tick_ = 0, last_tick_ = 0;
  bool stamped_ = false;
};

struct TraceBuilderOptions {
  std::uint32_t chunk_words = 4096;  // longest events chunk
  // Words at the end of each thread's stream that stay in a staging ring instead of a chunk (at most a ring full).
  std::uint64_t ring_tail_words = 0;
  std::uint32_t ring_bytes = 4096;
  std::uint32_t slots = 8;  // a segment
  // Words that the ring's slot had seen before (of earlier owners): moves the thread's words around the ring.
  std::uint64_t ring_start = 0;
  // Chunks and slots say how many records the thread had written (a lost word counts as one).
  bool counted = false;
  // As mode ring leaves it: no chunks, each piece of a stream (ThreadBuilder::chunk, lose) in a staging ring of its own, all
  // but the last filled and left.
  bool rings = false;
  std::uint32_t segment_cells = 1 << 16;  // of the stack table; unwritten ones at the end of the last
};

class TraceBuilder {
 public:
  using Options = TraceBuilderOptions;

  explicit TraceBuilder(Options = {});

  // All fields that a test may want to be otherwise. write() sets threads, append_at, and, where they are still zero,
  // end_tick and pairs[1].
  format::FileHeader& header() { return header_; }

  // Emits a stamp at `tick` and thread_start. Ids are given from 1.
  ThreadBuilder& thread(std::string_view name, std::uint32_t tid, Tick tick = 0, std::uint64_t stack_address = 0);
  // A thread without any record.
  ThreadBuilder& bare_thread(std::uint32_t tid);

  TraceBuilder& process(format::ProcessTag, std::string_view);
  TraceBuilder& snapshot(const trace::Snapshot&);
  TraceBuilder& counters(const format::ThreadCounters&);  // mode count

  // The stack table. Each returns the number of the cell that it wrote.
  std::uint32_t cell(std::uint64_t code, std::uint32_t parent, format::CellKind kind = format::CellKind::frame);  // any cell
  std::uint32_t frame(std::uint32_t parent, std::uint64_t address, std::uint16_t module = 0,
                      format::CellKind kind = format::CellKind::frame) {
    return cell(address | static_cast<std::uint64_t>(module) << format::kCodeModuleShift, parent, kind);
  }
  std::uint32_t module(std::uint16_t number, std::string_view path, std::string_view build_id, std::uint64_t bias,
                       std::uint64_t bytes = 1 << 20);
  std::uint32_t method(std::uint32_t number, std::string_view name);  // for cells of CellKind::java

  std::string bytes() const;                  // the file's content
  void write(const std::string& path) const;  // streams it out; memory as the words

 private:
  template <typename Sink>
  void emit(Sink&) const;
  template <typename Sink>
  void emit_rings(Sink&) const;
  template <typename Sink>
  void emit_counters(Sink&) const;
  template <typename Sink>
  void emit_stacks(Sink&) const;
  std::uint32_t described(std::uint32_t number, format::CellKind, std::string payload);

  Options options_;
  format::FileHeader header_{};
  std::deque<ThreadBuilder> threads_;
  std::string process_;
  std::vector<std::pair<Tick, std::string>> snapshots_;
  std::vector<format::ThreadCounters> counters_;
  std::vector<format::StackCell> cells_;
};

// The payload of a snapshot chunk.
std::string encode_snapshot(const trace::Snapshot&);

// A file that goes away with it.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content = {});
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }
  void write(std::string_view content);  // replaces the content

 private:
  std::string path_;
  int descriptor_ = -1;
  bool on_disk_ = false;
};

}  // namespace heapspy::test
