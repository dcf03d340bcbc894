// Empties the staging rings of a family of recorded processes from a core of its own, and packs each trace when its process
// has ended. `heapspy record` runs one beside the program.
//
// Nothing waits for it: a thread whose ring is nearly full appends to the file itself, whether the collector is late, stopped
// or dead. What a ring loses is in the page cache by then.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace heapspy::collector {

class Collector {
 public:
  // `folder`: where the family's traces appear, those whose names match `pattern` (a glob of the whole path). Watches from now
  // on; works from start() on. A folder that cannot be watched is one without a collector.
  Collector(const std::string& folder, const std::string& pattern);
  ~Collector();
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  // What the family must have as HEAPSPY_COLLECTOR: by it the collector knows a trace that is its own.
  const std::string& name() const;
  // Starts two threads; both have all signals blocked.
  void start();
  // After the program's end: empties what is left, leaves the traces of processes that still run to them, packs those of
  // processes that do not. Returns when all of that is done.
  void finish();
  // After finish(): one line each about traces that could not be packed.
  const std::vector<std::string>& problems() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heapspy::collector
