// What a mapping is for, as far as its kind can be told from the outside.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "analyzer/process/mappings.h"

namespace heapspy::process {

// Each kind is executable as a whole or not at all. The list exists once; the words are those of text and JSON.
#define HEAPSPY_MAPPING_KINDS(X)                                                                            \
  X(main_heap, "main heap")                       /* [heap], grown by brk */                                \
  X(arena, "arenas")                              /* heaps of glibc's secondary arenas, with reserve */     \
  X(thread_stack, "thread stacks")                /* see Evidence::stack_pointers */                        \
  X(main_stack, "main stack")                     /* [stack] */                                             \
  X(anonymous, "anonymous")                       /* large malloc blocks, Java heap, …: not told apart */ \
  X(executable_anonymous, "executable anonymous") /* code made at run time */                               \
  X(reserved, "reserved")                         /* no access: address space only, guard pages */          \
  X(library_code, "library code")                 /* executable parts of mapped programs */                 \
  X(library_data, "library data")                 /* other parts of files that also have a code part */     \
  X(java_archive, "java class archive")           /* .jsa and jimage files */                               \
  X(file, "files")                                                                                          \
  X(executable_file, "executable files") /* executable, writable and shared: code through a file */         \
  X(shared_memory, "shared memory")      /* /dev/shm, memfd, SysV, shared anonymous */                      \
  X(heapspy_trace, "heapspy trace")                                                                         \
  X(device, "devices")                                                                                      \
  X(kernel, "kernel pages")     /* [vvar], and executable: */                                               \
  X(kernel_code, "kernel code") /* [vdso], [vsyscall] */

enum class MappingKind : std::uint8_t {
#define X(id, text) id,
  HEAPSPY_MAPPING_KINDS(X)
#undef X
};

inline constexpr std::string_view kMappingKindNames[] = {
#define X(id, text) text,
    HEAPSPY_MAPPING_KINDS(X)
#undef X
};
inline constexpr std::size_t kMappingKinds = std::size(kMappingKindNames);
inline constexpr std::string_view name(MappingKind kind) { return kMappingKindNames[static_cast<std::size_t>(kind)]; }

inline constexpr std::uint64_t kArenaRegionBytes = std::uint64_t{64} << 20;  // HEAP_MAX_SIZE of 64-bit glibc

// What mappings alone do not say.
struct Evidence {
  // Whether a heap_info of glibc stands at a multiple of kArenaRegionBytes; nullopt: cannot be read. Without the
  // function (or with nullopt) the shape decides: writable, then no access up to 64 MiB, above the first 64 GiB
  // (Java heaps have the same shape, below).
  std::function<std::optional<bool>(std::uint64_t address)> heap_at;
  // Stack pointers of the threads. A mapping that holds one is a stack; so is one of the same shape (same size, guard
  // pages before it) as such a one: those of running threads and the stacks that glibc keeps for the next thread. So are
  // three or more of one size with one guard page each, whether or not a pointer is known.
  std::vector<std::uint64_t> stack_pointers;
};

struct Classification {
  std::vector<MappingKind> kinds;      // one per mapping
  std::vector<std::uint64_t> regions;  // addresses of the 64 MiB regions of arenas, ascending
};

// `mappings` by address, as the kernel lists them. Linear, but for a binary search per stack pointer and one call of
// heap_at per 64 MiB of writable anonymous memory.
Classification classify(std::span<const Mapping> mappings, const Evidence& evidence);

// Whether 32 bytes read at `address` can be glibc's heap_info {ar_ptr, prev, size, mprotect_size}.
bool plausible_heap_info(std::uint64_t address, const std::uint64_t (&words)[4]);

}  // namespace heapspy::process
