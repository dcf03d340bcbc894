// The file under a trace, read with pread only: it may grow or be cut while it is read, and a mapping would turn that
// into SIGBUS.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>

namespace heapspy::trace {

// Owns the descriptor. May be used by several threads at once. Move-only by way of not moving at all.
class TraceFile {
 public:
  // Throws Unreadable (reader.h): one line that names the path and the reason.
  explicit TraceFile(const std::string& path);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t size() const;  // now, in bytes
  dev_t device() const { return device_; }
  ino_t inode() const { return inode_; }

  // Up to `bytes` from `offset`; returns how many could be read.
  std::uint64_t read(std::uint64_t offset, void* to, std::uint64_t bytes) const;
  // The first offset at or after `offset` that is not in a hole of the file; `offset` where holes are not known.
  std::uint64_t next_data(std::uint64_t offset) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace heapspy::trace
