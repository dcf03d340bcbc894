// The right verdict: growth by small steps. append() makes a buffer 4 KiB larger each time, as an array without spare room
// does, until it holds 64 MiB. What each step may have to carry over is all that is there, so the work grows with the square
// of the size: 512 GiB in all. (glibc moves a mapping's pages instead of copying where it can; another allocator copies.)
//
// No allocator setting helps; growing by a factor does. With --without, the buffer doubles: 64 MiB carried in all.
//
// Arguments: MiB in the end (default 64), KiB a step (default 4).
#include "stage.h"

namespace {

struct Buffer {
  char* bytes = nullptr;
  std::size_t size = 0, room = 0;
};

[[gnu::noinline]] void append(Buffer& buffer, std::size_t bytes, bool by_factor) {
  if (buffer.size + bytes > buffer.room) {
    const std::size_t room = by_factor && buffer.room * 2 > buffer.size + bytes ? buffer.room * 2 : buffer.size + bytes;
    auto* larger = static_cast<char*>(std::realloc(buffer.bytes, room));
    if (larger == nullptr) std::abort();
    buffer.bytes = larger;
    buffer.room = room;
  }
  std::memset(buffer.bytes + buffer.size, 1, bytes);
  buffer.size += bytes;
}

}  // namespace

int main(int argc, char** argv) {
  const stage::Arguments arguments = stage::parse(argc, argv, "[MIB [STEP_KIB]] [--without]");
  const auto size = static_cast<std::size_t>(arguments.get(0, 64)) << 20;
  const auto step = static_cast<std::size_t>(arguments.get(1, 4)) << 10;
  stage::say("at the start");

  Buffer buffer;
  while (buffer.size < size) append(buffer, step, arguments.without);
  stage::say("the buffer is full");

  stage::hold(arguments);
  stage::keep(buffer.bytes);
  std::free(buffer.bytes);
}
