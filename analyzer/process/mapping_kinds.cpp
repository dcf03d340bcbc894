#include "analyzer/process/mapping_kinds.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace heapspy::process {
namespace {

constexpr std::uint64_t kShapeFloor = std::uint64_t{1} << 36;
constexpr std::uint64_t kUserEnd = std::uint64_t{1} << 47;  // malloc gets nothing above; bounds the walk of damaged text
constexpr std::uint64_t kLargestGuard = std::uint64_t{1} << 20;
constexpr std::uint64_t kUsualGuard = 4096;  // glibc's, where nobody asks for another
constexpr std::size_t kAlike = 3;
constexpr std::string_view kGlibcStack = "[anon: glibc: pthread stack", kGlibcArena = "[anon: glibc: malloc arena";

bool no_access(const Mapping& m) { return !m.read && !m.write && !m.execute; }
bool plain_memory(const Mapping& m) { return m.anonymous() && m.read && m.write && !m.execute; }
// Not yet something the kernel or glibc named.
bool unnamed(const Mapping& m) { return m.name.empty() || m.name.starts_with("[anon:"); }

bool is_shared_memory(const Mapping& m) {
  const std::string_view n = m.name;
  return n.starts_with("/dev/shm/") || n.starts_with("/memfd:") || n.starts_with("/SYSV") || n.starts_with("/dev/zero") ||
         n.starts_with("/run/shm/") || n.starts_with("[anon_shmem:") || (m.shared && n.empty());
}

MappingKind kind_of_file(const Mapping& m, bool has_code) {
  const std::string_view n = m.name;
  if (is_shared_memory(m)) return m.execute ? MappingKind::executable_file : MappingKind::shared_memory;
  if (n.starts_with("/dev/") || n.starts_with("anon_inode:")) return MappingKind::device;
  if (n.ends_with(".hspy") && !m.execute) return MappingKind::heapspy_trace;
  if (m.execute) return m.shared && m.write ? MappingKind::executable_file : MappingKind::library_code;
  if (n.ends_with(".jsa") || n.ends_with("/lib/modules")) return MappingKind::java_archive;
  return has_code ? MappingKind::library_data : MappingKind::file;
}

MappingKind kind_of_memory(const Mapping& m) {
  const std::string_view n = m.name;
  if (n == "[heap]") return m.execute ? MappingKind::executable_anonymous : MappingKind::main_heap;
  if (n.starts_with("[stack")) return m.execute ? MappingKind::executable_anonymous : MappingKind::main_stack;
  if (n == "[vdso]" || n == "[vsyscall]" || n == "[vectors]" || n == "[sigpage]") return MappingKind::kernel_code;
  if (n.starts_with("[vvar")) return MappingKind::kernel;
  if (no_access(m)) return MappingKind::reserved;
  if (m.execute) return MappingKind::executable_anonymous;
  if (n.starts_with(kGlibcStack)) return MappingKind::thread_stack;
  if (n.starts_with(kGlibcArena)) return MappingKind::arena;
  return MappingKind::anonymous;
}

// Walks the 64 MiB-aligned addresses in writable memory; `covers` looks at the mappings behind each.
class ArenaFinder {
 public:
  ArenaFinder(std::span<const Mapping> mappings, const Evidence& evidence, Classification& result)
      : mappings_(mappings), evidence_(evidence), result_(result) {}

  void run() {
    for (std::size_t i = 0; i < mappings_.size(); i++) {
      const Mapping& m = mappings_[i];
      if (!plain_memory(m) || !unnamed(m)) continue;
      std::uint64_t at = (m.start + kArenaRegionBytes - 1) & ~(kArenaRegionBytes - 1);
      for (const std::uint64_t end = std::min(m.end, kUserEnd); at >= m.start && at < end; at += kArenaRegionBytes)
        if (is_region(i, at)) accept(i, at);
    }
  }

 private:
  bool is_region(std::size_t i, std::uint64_t at) const {
    const std::uint64_t end = at + kArenaRegionBytes;
    bool reserve_seen = false;
    std::uint64_t covered = mappings_[i].end;
    for (std::size_t next = i + 1; covered < end; next++) {
      if (next == mappings_.size() || mappings_[next].start != covered) return false;
      const Mapping& m = mappings_[next];
      if (!m.anonymous() || !no_access(m)) return false;
      reserve_seen = true;
      covered = m.end;
    }
    const std::optional<bool> proof = evidence_.heap_at ? evidence_.heap_at(at) : std::nullopt;
    return proof.value_or(reserve_seen && at >= kShapeFloor);
  }

  void accept(std::size_t i, std::uint64_t at) {
    result_.regions.push_back(at);
    const std::uint64_t end = at + kArenaRegionBytes;
    // A reserve that reaches beyond the region was merged with something else's: it stays `reserved`.
    result_.kinds[i] = MappingKind::arena;
    for (std::size_t next = i + 1; next < mappings_.size() && mappings_[next].start < end; next++)
      if (mappings_[next].end <= end) result_.kinds[next] = MappingKind::arena;
  }

  std::span<const Mapping> mappings_;
  const Evidence& evidence_;
  Classification& result_;
};

// Bytes of the no-access mapping that ends where mapping `i` starts; 0 if there is none.
std::uint64_t guard_before(std::span<const Mapping> mappings, std::size_t i) {
  if (i == 0) return 0;
  const Mapping& before = mappings[i - 1];
  return before.end == mappings[i].start && before.anonymous() && no_access(before) ? before.size_bytes() : 0;
}

// Threads that the evidence does not name (in a trace, those that never allocated): several stretches of one size, each right
// behind a page without access, as pthread_create makes them. madvise may have cut a stretch into several mappings.
void find_unnamed_stacks(std::span<const Mapping> mappings, Classification& result) {
  const auto is_memory = [&](std::size_t i) {
    return result.kinds[i] == MappingKind::anonymous && plain_memory(mappings[i]) && unnamed(mappings[i]);
  };
  struct Stretch {
    std::size_t first = 0, end = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<Stretch> stretches;
  std::unordered_map<std::uint64_t, std::size_t> alike;
  for (std::size_t i = 0; i < mappings.size(); i++) {
    if (!is_memory(i) || guard_before(mappings, i) != kUsualGuard) continue;
    std::size_t end = i + 1;
    while (end < mappings.size() && mappings[end].start == mappings[end - 1].end && is_memory(end)) end++;
    stretches.push_back({i, end, mappings[end - 1].end - mappings[i].start});
    alike[stretches.back().bytes]++;
  }
  for (const Stretch& each : stretches)
    if (alike[each.bytes] >= kAlike)
      for (std::size_t i = each.first; i < each.end; i++) result.kinds[i] = MappingKind::thread_stack;
}

void find_stacks(std::span<const Mapping> mappings, const Evidence& evidence, Classification& result) {
  std::unordered_set<std::uint64_t> sizes;  // stack and guard together: a JVM moves the border between the two
  for (const std::uint64_t pointer : evidence.stack_pointers) {
    const auto above = std::upper_bound(mappings.begin(), mappings.end(), pointer,
                                        [](std::uint64_t address, const Mapping& m) { return address < m.start; });
    if (above == mappings.begin()) continue;
    const auto i = static_cast<std::size_t>(above - mappings.begin()) - 1;
    if (pointer >= mappings[i].end || result.kinds[i] != MappingKind::anonymous) continue;
    result.kinds[i] = MappingKind::thread_stack;
    const std::uint64_t guard = guard_before(mappings, i);
    if (guard != 0 && guard <= kLargestGuard) sizes.insert(guard + mappings[i].size_bytes());
  }
  find_unnamed_stacks(mappings, result);
  for (std::size_t i = 0; i < mappings.size(); i++) {
    if (result.kinds[i] != MappingKind::anonymous || !plain_memory(mappings[i]) || !unnamed(mappings[i])) continue;
    const std::uint64_t guard = guard_before(mappings, i);
    if (guard != 0 && guard <= kLargestGuard && sizes.contains(guard + mappings[i].size_bytes()))
      result.kinds[i] = MappingKind::thread_stack;
  }
}

struct FileId {
  std::uint32_t device_major, device_minor;
  std::uint64_t inode;
  bool operator==(const FileId&) const = default;
};
struct FileIdHash {
  std::size_t operator()(const FileId& id) const {
    return (id.inode * 0x9E3779B97F4A7C15ull) ^ (std::uint64_t{id.device_major} << 32 | id.device_minor);
  }
};
FileId file_id(const Mapping& m) { return {m.device_major, m.device_minor, m.inode}; }

}  // namespace

Classification classify(std::span<const Mapping> mappings, const Evidence& evidence) {
  Classification result;
  result.kinds.reserve(mappings.size());
  std::unordered_set<FileId, FileIdHash> with_code;
  for (const Mapping& m : mappings)
    if (m.inode != 0 && m.execute) with_code.insert(file_id(m));
  for (const Mapping& m : mappings)
    result.kinds.push_back(m.anonymous() ? kind_of_memory(m) : kind_of_file(m, with_code.contains(file_id(m))));
  ArenaFinder(mappings, evidence, result).run();
  find_stacks(mappings, evidence, result);
  return result;
}

bool plausible_heap_info(std::uint64_t address, const std::uint64_t (&words)[4]) {
  const auto [arena, previous, size, writable] = words;
  constexpr std::uint64_t kPage = 4096, kMask = kArenaRegionBytes - 1;
  if (size == 0 || size % kPage != 0 || size > writable || writable % kPage != 0 || writable > kArenaRegionBytes) return false;
  if ((previous & kMask) != 0) return false;
  // The arena's state follows the heap_info (0x20 bytes, 0x30 since 2.35) of its first heap: this one, or the one
  // that the chain of `previous` ends at.
  const std::uint64_t offset = arena & kMask;
  if (offset != 0x20 && offset != 0x30) return false;
  return previous == 0 ? arena - offset == address : arena - offset != address;
}

}  // namespace heapspy::process
