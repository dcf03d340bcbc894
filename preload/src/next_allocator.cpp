#include "next_allocator.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <stdlib.h>

#include <atomic>
#include <initializer_list>

#include "os.h"
#include "text.h"

#pragma weak gnu_get_libc_version  // musl's loader looks at LD_PRELOAD too, and has neither this nor malloc_trim
#pragma weak dlvsym                // nor this

namespace heapspy {
namespace {

enum class State : int { unresolved, resolving, resolved };
std::atomic<State> state{State::unresolved};
std::atomic<int> resolver{0};  // tid of the thread that resolves

char name_[64] = "unknown";
char version_[96] = "";
bool is_glibc_ = false;

// True where the caller must be served by the bootstrap arena: it is called from within dlsym.
bool must_bootstrap() {
  if (state.load(std::memory_order_acquire) == State::resolved) return false;
  if (state.load(std::memory_order_acquire) == State::resolving && resolver.load(std::memory_order_relaxed) == os::tid())
    return true;
  resolve_next_allocator();
  return false;
}

void* first_malloc(size_t n) { return must_bootstrap() ? bootstrap::allocate(n) : next_allocator.malloc(n); }
void first_free(void* p) {
  if (!must_bootstrap()) next_allocator.free(p);
}
void* first_calloc(size_t a, size_t b) {
  if (!must_bootstrap()) return next_allocator.calloc(a, b);
  size_t bytes;
  return __builtin_mul_overflow(a, b, &bytes) ? nullptr : bootstrap::allocate(bytes);  // never reused, so zero
}
void* first_realloc(void* p, size_t n) {
  if (!must_bootstrap()) return next_allocator.realloc(p, n);
  void* fresh = bootstrap::allocate(n);
  if (fresh && p && bootstrap::owns(p)) {
    const size_t old = bootstrap::usable_bytes(p);
    __builtin_memcpy(fresh, p, old < n ? old : n);
  }
  return fresh;
}
void* first_memalign(size_t a, size_t n) {
  return must_bootstrap() ? bootstrap::allocate(n, a) : next_allocator.memalign(a, n);
}
void* first_aligned_alloc(size_t a, size_t n) {
  return must_bootstrap() ? bootstrap::allocate(n, a) : next_allocator.aligned_alloc(a, n);
}
int first_posix_memalign(void** to, size_t a, size_t n) {
  if (!must_bootstrap()) return next_allocator.posix_memalign(to, a, n);
  *to = bootstrap::allocate(n, a);
  return *to ? 0 : ENOMEM;
}
void* first_valloc(size_t n) { return must_bootstrap() ? bootstrap::allocate(n, 4096) : next_allocator.valloc(n); }
void* first_pvalloc(size_t n) { return must_bootstrap() ? bootstrap::allocate(n, 4096) : next_allocator.pvalloc(n); }
size_t first_usable_size(void* p) {
  return must_bootstrap() ? bootstrap::usable_bytes(p) : next_allocator.malloc_usable_size(p);
}

template <class Function>
void find(const char* symbol, Function& to) {
  if (void* found = dlsym(RTLD_NEXT, symbol)) to = reinterpret_cast<Function>(found);
}

const char* base_name(const char* path) {
  const char* base = path;
  for (; *path; path++)
    if (*path == '/') base = path + 1;
  return base;
}

struct Owner {
  uintptr_t address;
  const char* file = nullptr;  // of the object that holds the address
  uintptr_t base = 0;
};

// dladdr would do, but it walks whole symbol tables: a twentieth of a short process's time.
int find_owner(dl_phdr_info* object, size_t, void* data) {
  auto& owner = *static_cast<Owner*>(data);
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || owner.address - object->dlpi_addr - segment.p_vaddr >= segment.p_memsz) continue;
    owner.file = object->dlpi_name;
    owner.base = object->dlpi_addr;
    return 1;
  }
  return 0;
}

// Whether the object that holds `one` was loaded before that of `other`: in this order the loader looks for symbols.
bool stands_before(void* one, void* other) {
  struct Both {
    Owner one, other;
  } both = {{reinterpret_cast<uintptr_t>(one)}, {reinterpret_cast<uintptr_t>(other)}};
  return dl_iterate_phdr(
             [](dl_phdr_info* object, size_t size, void* data) {
               auto& owners = *static_cast<Both*>(data);
               return find_owner(object, size, &owners.one) ? 1 : find_owner(object, size, &owners.other) ? 2 : 0;
             },
             &both) == 1;
}

Owner owner_of(void* function) {
  Owner owner{reinterpret_cast<uintptr_t>(function)};
  dl_iterate_phdr(find_owner, &owner);
  return owner;
}

// glibc is known by where its malloc is, not by __libc_malloc: tcmalloc and mimalloc export that too.
void identify() {
  const Owner allocator = owner_of(reinterpret_cast<void*>(next_allocator.malloc));
  if (!allocator.file) return;
  if (allocator.base == owner_of(reinterpret_cast<void*>(&gnu_get_libc_version)).base) {
    is_glibc_ = true;
    Text(name_, sizeof name_).add("glibc");
    Text(version_, sizeof version_).add(gnu_get_libc_version());
    return;
  }
  const char* file = base_name(allocator.file);
  Text name(name_, sizeof name_);
  for (const char* known : {"jemalloc", "tcmalloc", "mimalloc"})
    for (const char* at = file; *at && !name.length(); at++)
      if (begins_with(at, known)) name.add(known);
  if (!name.length()) name.add(file);
  Text(version_, sizeof version_).add(file);
}

}  // namespace

NextAllocator next_allocator = {first_malloc,        first_free,           first_calloc, first_realloc, first_memalign,
                                first_aligned_alloc, first_posix_memalign, first_valloc, first_pvalloc, first_usable_size};

void resolve_next_allocator() {
  State expected = State::unresolved;
  if (!state.compare_exchange_strong(expected, State::resolving)) {
    while (state.load(std::memory_order_acquire) == State::resolving && resolver.load(std::memory_order_relaxed) != os::tid())
      os::yield();
    return;
  }
  resolver.store(static_cast<int>(os::tid()), std::memory_order_relaxed);
  NextAllocator found{};
  find("malloc", found.malloc);
  find("free", found.free);
  find("calloc", found.calloc);
  find("realloc", found.realloc);
  find("memalign", found.memalign);
  find("aligned_alloc", found.aligned_alloc);
  find("posix_memalign", found.posix_memalign);
  find("valloc", found.valloc);
  find("pvalloc", found.pvalloc);
  find("malloc_usable_size", found.malloc_usable_size);
  next_allocator = found;
  state.store(State::resolved, std::memory_order_release);
  identify();
}

const char* allocator_name() { return name_; }
const char* front_name() {
  void* ours = reinterpret_cast<void*>(&::malloc);
  void* first = dlsym(RTLD_DEFAULT, "malloc");
  if (first == ours && dlvsym) {
    // A library may have it by the version only that programs ask for, as libc_malloc_debug does. libc has it, too, behind us.
#if defined(__x86_64__)
    first = dlvsym(RTLD_DEFAULT, "malloc", "GLIBC_2.2.5");
#else
    first = dlvsym(RTLD_DEFAULT, "malloc", "GLIBC_2.17");
#endif
    if (!first || !stands_before(first, ours)) return "";
  }
  if (!first || first == ours) return "";
  const Owner owner = owner_of(first);
  return owner.file && *owner.file ? base_name(owner.file) : "the program itself";
}
const char* allocator_version() { return version_; }
const char* glibc_version() { return gnu_get_libc_version ? gnu_get_libc_version() : ""; }
unsigned glibc_minor_version() {
  unsigned minor = 0;
  for (const char* at = gnu_get_libc_version() + 2; *at >= '0' && *at <= '9'; at++)
    minor = minor * 10 + static_cast<unsigned>(*at - '0');
  return minor;
}
bool libc_is_glibc() { return gnu_get_libc_version; }
bool allocator_is_glibc() { return is_glibc_; }

namespace bootstrap {

alignas(4096) char arena[kBytes];
static std::atomic<size_t> used{0};

// Each block is preceded by its size, in 16 bytes.
void* allocate(size_t bytes, size_t alignment) {
  if (alignment < 16 || (alignment & (alignment - 1))) alignment = 16;
  if (bytes > kBytes || alignment > kBytes) return nullptr;
  const size_t need = bytes + alignment + 16;
  const size_t at = used.fetch_add(need);
  if (at + need > kBytes) return nullptr;
  uintptr_t start = reinterpret_cast<uintptr_t>(arena) + at + 16;
  start = (start + alignment - 1) & ~(alignment - 1);
  reinterpret_cast<size_t*>(start)[-1] = bytes;
  return reinterpret_cast<void*>(start);
}

size_t usable_bytes(void* block) { return block ? static_cast<size_t*>(block)[-1] : 0; }

}  // namespace bootstrap
}  // namespace heapspy
