// The trace of one running process, whose rings are emptied from outside into chunks of the same file: packed where there is
// time for it. What left a ring is in the page cache before the ring knows: killing either process, or both, loses nothing.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/collector/collected_ring.h"
#include "analyzer/trace/packed_words.h"
#include "heapspy/format/layout.h"

namespace heapspy::collector {

// How full the fullest ring is, of what its owner would append itself.
struct Fill {
  std::uint64_t words = 0;  // most in a ring
  std::uint64_t fresh = 0;  // most that came into a ring since the look before
};

// Owns a descriptor and the mappings. For one thread at a time.
class CollectedTrace {
 public:
  enum class Opened { yes, not_yet, not_ours };
  // `ours`: the value of HEAPSPY_COLLECTOR that this collector gives its family. not_yet: the recorder has not described the
  // process yet.
  static Opened open(const std::string& path, const std::string& ours, std::unique_ptr<CollectedTrace>& to);
  ~CollectedTrace();  // the header names no collector any more
  CollectedTrace(const CollectedTrace&) = delete;
  CollectedTrace& operator=(const CollectedTrace&) = delete;

  const std::string& path() const { return path_; }
  pid_t pid() const { return static_cast<pid_t>(header_->pid); }
  bool has_ended() const;  // so says the recorder; the process may be there for a while yet

  // Looks at every ring once; empties those that hold at least `from_words`.
  Fill round(std::uint64_t from_words, trace::WordPacker& packer);
  // Tells the recorder that somebody is at work.
  void beat();
  // Looks for staging segments that were added. Cheap where there are none.
  void find_segments();

 private:
  CollectedTrace(std::string path, int descriptor, format::FileHeader* header);
  bool skip_to_alignment(std::uint64_t end);
  void map_segment(std::uint64_t at, const format::StagingHeader& staging);
  bool must_hurry(const Fill& fill, std::uint64_t words, Tick interval) const;
  bool append_packed(const CollectedRing::Words& words, trace::WordPacker& packer);
  bool append_as_they_are(const CollectedRing::Words& words);
  bool append(const CollectedRing::Words& words, format::ChunkKind kind, std::string_view payload);
  Tick now() const;

  struct Mapping {
    void* at;
    std::size_t bytes;
  };

  std::string path_;
  int descriptor_;
  format::FileHeader* header_;
  std::vector<Mapping> mappings_;
  std::vector<CollectedRing> rings_;
  std::uint64_t segments_to_ = format::kPageBytes;  // where the next chunk begins
  std::uint64_t looked_to_ = 0;                     // append_at when it was last looked at
  unsigned stuck_ = 0;                              // looks that found no chunk there yet
  Tick sighting_interval_ = 0;
  Tick looked_at_ = 0;
  double pack_ticks_ = 0;  // what packing a word takes, of late
  bool full_ = false;      // nothing can be appended any more
};

}  // namespace heapspy::collector
