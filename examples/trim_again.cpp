// The right verdict: nothing to return. The heap was filled, freed and trimmed, and one byte keeps it from shrinking, so
// glibc's own counters (malloc_info, mallinfo2) go on to say that hundreds of MB are free. They are addresses, not memory: the
// pages have left, and another trim returns 0.
//
// `heapspy report` says what the heap holds in address space and what of it is resident, and predicts 0 bytes. With --without,
// nobody has trimmed yet: the same counters, and all of it can be returned.
//
// Arguments: blocks (default 200 000), bytes each (default 1024).
#include <malloc.h>

#include "stage.h"

int main(int argc, char** argv) {
  const stage::Arguments arguments = stage::parse(argc, argv, "[BLOCKS [BYTES]] [--without]");
  const long blocks = arguments.get(0, 200'000);
  const auto bytes = static_cast<std::size_t>(arguments.get(1, 1024));
  stage::say("at the start");

  auto** block = static_cast<char**>(std::malloc(static_cast<std::size_t>(blocks) * sizeof(char*)));
  if (block == nullptr) return 1;
  for (long i = 0; i < blocks; i++) {
    block[i] = static_cast<char*>(std::malloc(bytes));
    if (block[i] == nullptr) return 1;
    std::memset(block[i], 1, bytes);
  }
  char* plug = static_cast<char*>(std::malloc(1));
  stage::say("everything allocated");

  for (long i = 0; i < blocks; i++) std::free(block[i]);
  std::free(block);
  stage::say("everything freed but 1 byte");
  if (!arguments.without) {
    malloc_trim(0);
    stage::say("trimmed");
  }
  char line[128];
  const int length = std::snprintf(line, sizeof line, "mallinfo2 says: %.1f MiB free\n",
                                   static_cast<double>(mallinfo2().fordblks) / (1 << 20));
  if (write(STDOUT_FILENO, line, static_cast<std::size_t>(length)) < 0) return 1;

  stage::hold(arguments);
  stage::keep(plug);
}
