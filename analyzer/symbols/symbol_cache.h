// What was found out about addresses of files with debug information, kept for the next report: reading it is most of what a
// report of a large program takes. One file per build-id in one folder:
//
//   "HSPYSYM1"  checksum of the rest, which is filled up to whole words: u64
//   source: string     which files it is from, with their sizes and times; other files, other answers
//   symbols: u8
//   texts: u32 count, each a string     a string: u32 length, bytes
//   addresses: u32 count, each  u64 address, u32 count, and per location  u32 function, u32 file, u32 line  (texts by index)
//
// A file that is damaged, of another version or of another source is as if it were not there, and a folder that cannot be
// written is left alone. Several programs may use one folder: files are replaced whole.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "analyzer/symbols/debug_info.h"

namespace heapspy::symbols {

struct RememberedModule {
  std::unordered_map<std::uint64_t, Locations> at;
  bool symbols = false;
};

class SymbolCache {
 public:
  static constexpr std::uint64_t kMostBytes = 64 << 20;      // of all files
  static constexpr std::uint64_t kMostFileBytes = 16 << 20;  // what is larger is not kept

  // `folder` is made where it is missing; empty: nothing is remembered.
  explicit SymbolCache(std::string folder, std::uint64_t most_bytes = kMostBytes)
      : folder_(std::move(folder)), most_bytes_(most_bytes) {}

  std::optional<RememberedModule> read(const std::string& build_id, const std::string& source) const;
  // Then removes those that were not used for the longest time, until the rest is within the limit.
  void write(const std::string& build_id, const std::string& source, const RememberedModule&) const;

 private:
  std::string path_of(const std::string& build_id) const;
  void make_room() const;

  std::string folder_;
  std::uint64_t most_bytes_;
};

// As locate(), with what is remembered of this module in SearchPaths::cache.
ModuleLocations locate_remembering(const Module&, const FoundModule&, const SearchPaths&,
                                   std::span<const std::uint64_t> addresses);

}  // namespace heapspy::symbols
