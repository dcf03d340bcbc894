// A core file (ELF, core(5)) as memory: what the kernel or gcore wrote of a process. Whatever the file holds, reading it is
// safe.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/process/target.h"

namespace heapspy::process {

// what() is one line: what, where, what to do.
struct CoreError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class CoreFile : public Target {
 public:
  // Throws CoreError: not there, not a core, or of a machine that this program does not read.
  explicit CoreFile(const std::string& path);
  ~CoreFile() override;
  CoreFile(const CoreFile&) = delete;
  CoreFile& operator=(const CoreFile&) = delete;

  const std::vector<Mapping>& mappings() const override { return mappings_; }
  const std::vector<ThreadState>& threads() const override { return threads_; }
  std::uint64_t page_bytes() const override { return page_bytes_; }
  std::size_t read(std::uint64_t address, std::span<std::byte> to) const override;
  std::optional<std::vector<PageState>> pages(std::uint64_t, std::size_t) const override { return std::nullopt; }
  std::uint64_t held_end(std::uint64_t start, std::uint64_t end) const override;
  std::string file_of(const Mapping&) const override;

  const std::string& path() const { return path_; }
  std::uint64_t missing_bytes() const { return missing_bytes_; }  // that the file says it holds: it was cut
  pid_t pid() const { return pid_; }                              // 0: not known
  pid_t parent() const { return parent_; }
  int signal() const { return signal_; }                         // that ended the process; 0: none (gcore)
  const std::string& command() const { return command_; }        // at most 80 characters of it
  const std::string& executable() const { return executable_; }  // "" not known

 private:
  struct Segment {
    std::uint64_t start = 0, bytes = 0, offset = 0;
  };
  std::vector<std::byte> bytes(std::uint64_t offset, std::uint64_t count) const;  // empty where the file ends before
  void read_headers();
  void read_notes(const std::vector<std::byte>& notes);
  void read_note(std::uint32_t type, std::span<const std::byte> data);
  void read_files(std::span<const std::byte> data);
  void read_auxiliary_vector(std::span<const std::byte> data);
  void name_mappings();

  std::string path_;
  int fd_ = -1;
  std::uint64_t size_ = 0, missing_bytes_ = 0, page_bytes_ = 4096;
  std::uint64_t program_headers_ = 0;  // of the program itself (AT_PHDR)
  std::vector<Segment> segments_;      // by address; those with bytes in the file
  std::vector<Mapping> mappings_, files_;
  std::vector<ThreadState> threads_;
  pid_t pid_ = 0, parent_ = 0;
  int signal_ = 0;
  std::string command_, executable_;
};

}  // namespace heapspy::process
