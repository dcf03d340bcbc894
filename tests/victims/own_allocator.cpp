// A program with an allocator of its own inside, as database servers have: every block that anybody in the process gets must be
// one of its own, from malloc and from operator new alike.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string>

namespace {

constexpr uint64_t kMark = 0x0a11'0ca7'0e5e'1f00;
alignas(64) char memory[16 << 20];
size_t used;

struct Head {
  uint64_t mark;
  size_t bytes;
};

bool is_own(void* block) {
  return block >= memory && block < memory + sizeof memory && (static_cast<Head*>(block) - 1)->mark == kMark;
}

}  // namespace

extern "C" {
void* malloc(size_t bytes) noexcept {
  const size_t need = sizeof(Head) + (bytes + 15) / 16 * 16;
  if (need < bytes || used + need > sizeof memory) return nullptr;
  auto* head = reinterpret_cast<Head*>(memory + used);
  used += need;
  *head = {kMark, bytes};
  return head + 1;
}
void free(void* block) noexcept {
  if (block && !is_own(block)) __builtin_trap();
}
void* calloc(size_t number, size_t each) noexcept {
  size_t bytes;
  return __builtin_mul_overflow(number, each, &bytes) ? nullptr : malloc(bytes);  // never used twice, so zero
}
void* realloc(void* block, size_t bytes) noexcept {
  if (block && !is_own(block)) __builtin_trap();
  void* fresh = malloc(bytes);
  if (fresh && block) {
    const size_t before = (static_cast<Head*>(block) - 1)->bytes;
    memcpy(fresh, block, before < bytes ? before : bytes);
  }
  return fresh;
}
size_t malloc_usable_size(void* block) noexcept {
  if (!is_own(block)) __builtin_trap();
  return (static_cast<Head*>(block) - 1)->bytes;
}
}

int main() {
  void* object = ::operator new(100);
  void* nothrow = ::operator new[](100, std::nothrow);
  const auto text = std::make_unique<std::string>(1000, 'x');
  char* copy = strdup("copy");
  printf("%d %d %d %d\n", is_own(object), is_own(nothrow), is_own(text->data()), is_own(copy));
  printf("%zu\n", malloc_usable_size(object));
  ::operator delete(object);
  free(nothrow);  // not nice, and often done
  free(copy);
  return 0;
}
