// The allocator beneath us: the next definition of each entry point after ours in the loader's search order (glibc's, or
// that of another preloaded allocator or interposer). Never __libc_malloc: it would bypass those.
//
// Until resolve() has run the pointers lead to functions that run it first, so any hook may be the first. While dlsym
// itself allocates (older glibc), a bootstrap arena serves it.
#pragma once
#include <cstddef>
#include <cstdint>

namespace heapspy {

struct NextAllocator {
  void* (*malloc)(size_t);
  void (*free)(void*);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  void* (*memalign)(size_t, size_t);
  void* (*aligned_alloc)(size_t, size_t);
  int (*posix_memalign)(void**, size_t, size_t);
  void* (*valloc)(size_t);
  void* (*pvalloc)(size_t);
  size_t (*malloc_usable_size)(void*);
};
extern NextAllocator next_allocator;

// Idempotent; any thread.
void resolve_next_allocator();

// What answers malloc: "glibc", "jemalloc", "tcmalloc", "mimalloc", or the file name of the library; with its version where it
// says one. Static text.
const char* allocator_name();
// File name of the object whose malloc the program comes to before ours; "": none.
const char* front_name();
const char* allocator_version();
const char* glibc_version();
unsigned glibc_minor_version();  // of 2.x
// False: a program of musl, whose loader takes the library too. It runs unrecorded.
bool libc_is_glibc();
// True where malloc beneath us is glibc's own, so that its heap structures and malloc_trim mean something.
bool allocator_is_glibc();

// Blocks that dlsym took before there was an allocator, and that the loader takes for the recorder's own thread. They are no
// event, and giving one back does nothing.
namespace bootstrap {
inline constexpr size_t kBytes = 64 << 10;
extern char arena[kBytes];
inline bool owns(const void* block) { return reinterpret_cast<uintptr_t>(block) - reinterpret_cast<uintptr_t>(arena) < kBytes; }
void* allocate(size_t bytes, size_t alignment = 16);
size_t usable_bytes(void* block);
}  // namespace bootstrap

}  // namespace heapspy
