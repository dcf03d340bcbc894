// A new file beside the one whose name it is to take. Goes away with the object unless it took the name.
#pragma once
#include <sys/stat.h>

#include <cstdint>
#include <string>

namespace heapspy::trace {

// Every member may throw NotPacked (pack.h): no room, no permission.
class ReplacementFile {
 public:
  explicit ReplacementFile(const std::string& target);
  ~ReplacementFile();
  ReplacementFile(const ReplacementFile&) = delete;
  ReplacementFile& operator=(const ReplacementFile&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return at_ + buffer_.size(); }

  void write(const void* from, std::size_t bytes);
  void pad(std::uint64_t alignment);
  void patch(const void* from, std::size_t bytes, std::uint64_t at) { write_at(from, bytes, at); }
  void flush();
  // With the owner and the time of the file it stands for. `to_disk`: not before it is on the disk.
  void take_name(const struct stat& like, bool to_disk);

 private:
  [[noreturn]] void fail(const char* what, int error);
  void write_at(const void* from, std::size_t bytes, std::uint64_t at);

  std::string target_, path_, buffer_;
  int descriptor_ = -1;
  bool made_ = false;
  std::uint64_t at_ = 0;
};

}  // namespace heapspy::trace
