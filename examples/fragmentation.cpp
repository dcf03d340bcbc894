// The right verdict: one live block of 1 byte plugs the top of the main heap, and 520 MB of free memory lie under it.
//
// glibc gives the main heap back only from its top. The last block allocated lives, so nothing under it leaves by
// itself, though every page of it is free: `heapspy trim` returns it all. With --without (no such byte) the same
// 500 000 blocks leave when they are freed. It is not a leak (live is 1 byte), and MALLOC_ARENA_MAX changes nothing
// (one thread, one arena).
//
// Arguments: blocks (default 500 000), bytes each (default 1024).
#include "stage.h"

int main(int argc, char** argv) {
  const stage::Arguments arguments = stage::parse(argc, argv, "[BLOCKS [BYTES]] [--without]");
  const long blocks = arguments.get(0, 500'000);
  const auto bytes = static_cast<std::size_t>(arguments.get(1, 1024));
  stage::say("at the start");

  auto** block = static_cast<char**>(std::malloc(static_cast<std::size_t>(blocks) * sizeof(char*)));
  if (block == nullptr) return 1;
  for (long i = 0; i < blocks; i++) {
    block[i] = static_cast<char*>(std::malloc(bytes));
    if (block[i] == nullptr) return 1;
    std::memset(block[i], 1, bytes);
  }
  char* plug = arguments.without ? nullptr : static_cast<char*>(std::malloc(1));
  if (plug != nullptr) *plug = 1;
  stage::say("everything allocated");

  for (long i = 0; i < blocks; i++) std::free(block[i]);
  std::free(block);
  stage::say(plug ? "everything freed but 1 byte" : "everything freed");

  stage::hold(arguments);
  stage::keep(plug);
}
