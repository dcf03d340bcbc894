// The call stacks of several processes as one list. Stacks are one where they spell the same: functions, files and lines, so a
// library that was built twice is one, and where no line is known, functions and the place in the very same build.
//
// Memory: some 40 bytes for each distinct frame below its callers, 300 for each distinct stack, and 4 for each process that has
// it. Symbols are looked up once, module by module, when all are gathered.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/model/heap_model.h"
#include "analyzer/report/report.h"
#include "analyzer/report/sites_build.h"
#include "analyzer/symbols/symbolizer.h"
#include "analyzer/trace/reader.h"

namespace heapspy::report {

class FamilySites {
 public:
  // Of one process; live and pinned bytes as of `at` (nullptr: not known).
  void add(const trace::Reader&, const model::Figures&, const model::Moment* at);

  // Fills sites, sites_left_out, modules and suppressed_bytes of `to`, as the options say. Once.
  void spell(Report& to, const SiteOptions&);

 private:
  // One frame of the code; `text`: of what has no address that other processes share.
  struct Frame {
    symbols::Place place;
    SharedText text;
    bool is_java = false;
    bool operator==(const Frame&) const = default;
  };
  struct FrameHash {
    std::size_t operator()(const Frame&) const;
  };
  // A frame below its callers; [0] is the root.
  struct Node {
    std::uint32_t frame = 0, parent = 0;
  };
  using NodeIds = std::unordered_map<std::uint64_t, std::uint32_t>;  // parent << 32 | frame

  std::uint32_t module_number(const symbols::Module&);
  std::uint32_t frame_number(const Frame&);
  static std::uint32_t child(std::vector<Node>&, NodeIds&, std::uint32_t parent, std::uint32_t frame);
  void spell_frames(const SiteOptions&, std::vector<ModuleReport>&);
  std::vector<SiteReport> spelled_sites();

  std::vector<symbols::Module> modules_;
  std::unordered_map<std::string, std::uint32_t> module_numbers_;
  std::vector<Frame> frames_;
  std::unordered_map<Frame, std::uint32_t, FrameHash> frame_numbers_;
  std::vector<Node> nodes_ = {{}};
  NodeIds node_ids_;
  std::vector<SiteReport> sites_;                              // sums, without frames
  std::vector<std::uint32_t> node_of_site_;                    // as sites_
  std::vector<std::vector<std::uint32_t>> processes_of_site_;  // as sites_; ascending
  std::uint32_t processes_ = 0;
  std::unordered_map<std::uint64_t, std::uint32_t> site_of_;  // node << 8 | why it ends there

  // Once spelled: what a frame is, and each spelling once.
  std::vector<std::vector<std::uint32_t>> spelling_;  // as frames_: innermost first, indices into spelled_
  std::vector<FrameReport> spelled_;
};

}  // namespace heapspy::report
