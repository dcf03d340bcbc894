// Memory to take apart: a process that stands still (stopped_process.h), or a core file (core_file.h).
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "analyzer/process/mappings.h"
#include "analyzer/process/page_state.h"

namespace heapspy::process {

struct ThreadState {
  pid_t tid = 0;
  std::uint64_t thread_pointer = 0;  // x86-64: fs_base; aarch64: tpidr_el0. 0: not known
  std::uint64_t stack_pointer = 0;   // 0: not known
};

struct Piece {
  std::uint64_t address = 0, bytes = 0;
};

class Target {
 public:
  virtual ~Target() = default;
  // By address, as in /proc/PID/maps. A core names files only: "[heap]" and the like are "".
  virtual const std::vector<Mapping>& mappings() const = 0;
  virtual const std::vector<ThreadState>& threads() const = 0;
  virtual std::uint64_t page_bytes() const = 0;
  // Bytes copied to `to` from `address` on; fewer than asked where readable memory ends.
  virtual std::size_t read(std::uint64_t address, std::span<std::byte> to) const = 0;
  // Copies the pieces one behind the other. Of those that could not be read as a whole the bytes are 0 and the flag false.
  virtual std::vector<bool> read_pieces(std::span<const Piece> pieces, std::byte* to) const;
  // nullopt: not known (a core).
  virtual std::optional<std::vector<PageState>> pages(std::uint64_t start, std::size_t count) const = 0;
  // Where the last page of [start, end) that can be there ends; `start` if none can. A core may name far more memory than it
  // holds.
  virtual std::uint64_t held_end(std::uint64_t start, std::uint64_t end) const { return start < end ? end : start; }
  // Where the content of a mapped file can be read on this machine; "": the file is another one now, or gone.
  virtual std::string file_of(const Mapping&) const = 0;

  // nullopt: could not be read as a whole.
  template <typename Value>
  std::optional<Value> read_value(std::uint64_t address) const {
    static_assert(std::is_trivially_copyable_v<Value>);
    std::byte raw[sizeof(Value)];
    if (read(address, raw) != sizeof raw) return std::nullopt;
    Value value;
    std::memcpy(&value, raw, sizeof value);
    return value;
  }
  // nullptr where nothing is mapped.
  const Mapping* mapping_at(std::uint64_t address) const;
};

}  // namespace heapspy::process
