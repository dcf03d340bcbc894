// The right verdict: a leak. One block in 100 is never freed; live memory grows with every round and never comes back.
//
// remember() is where it grows. No allocator setting, trim or other allocator helps, and none should be offered: the
// memory is in use, as far as the program says. With --without, the same program forgets what it remembers at the end of
// every tenth round: a sawtooth, and not a leak.
//
// Arguments: rounds (default 2000), requests per round (default 1000).
#include <time.h>

#include <vector>

#include "stage.h"

namespace {

constexpr long kLeakOneIn = 100;
constexpr std::size_t kRequestBytes = 1000;

std::vector<char*> remembered;

[[gnu::noinline]] char* handle_request() {
  auto* block = static_cast<char*>(std::malloc(kRequestBytes));
  if (block == nullptr) std::abort();
  std::memset(block, 1, kRequestBytes);
  return block;
}

[[gnu::noinline]] void remember() { remembered.push_back(handle_request()); }

void forget() {
  for (char* block : remembered) std::free(block);
  remembered.clear();
}

}  // namespace

int main(int argc, char** argv) {
  const stage::Arguments arguments = stage::parse(argc, argv, "[ROUNDS [REQUESTS]] [--without]");
  const long rounds = arguments.get(0, 2000);
  const long requests = arguments.get(1, 1000);
  stage::say("at the start");

  for (long round = 1; round <= rounds; round++) {
    for (long i = 0; i < requests; i++) {
      if (i % kLeakOneIn == 0)
        remember();
      else
        std::free(handle_request());
    }
    if (arguments.without && round % 10 == 0) forget();
    const timespec pause{0, 1'000'000};  // a server's idle time: the slope is bytes per second
    nanosleep(&pause, nullptr);
    if (round % (rounds / 4 > 0 ? rounds / 4 : 1) == 0) stage::say("running");
  }

  stage::hold(arguments);
}
