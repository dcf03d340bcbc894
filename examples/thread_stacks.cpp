// The right verdict: not malloc's. 500 threads that have each used 256 KiB of their stack once, in a deep call, and now wait:
// the kernel keeps the pages as long as the threads live. In `top` it looks like a leak; no allocator setting, no trim and no
// other allocator changes a byte of it.
//
// Fewer threads do, or smaller stacks where the depth comes from buffers (`ulimit -s` before the start,
// pthread_attr_setstacksize, -Xss for Java). With --without, the threads only wait: address space, and hardly any memory.
//
// Arguments: threads (default 500), KiB of stack that each uses (default 256), KiB of stack that each may use (default 1024).
#include <pthread.h>

#include <vector>

#include "stage.h"

namespace {

pthread_barrier_t everybody;
std::size_t used_bytes;

[[gnu::noinline]] void go_deep(std::size_t bytes) {
  char frame[4096];
  std::memset(frame, 1, sizeof frame);
  stage::keep(frame);
  if (bytes > sizeof frame) go_deep(bytes - sizeof frame);
  stage::keep(frame);
}

void* work(void*) {
  if (used_bytes > 0) go_deep(used_bytes);
  pthread_barrier_wait(&everybody);  // the work is done
  pthread_barrier_wait(&everybody);  // the program may end
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  const stage::Arguments arguments = stage::parse(argc, argv, "[THREADS [USED_KIB [STACK_KIB]]] [--without]");
  const long threads = arguments.get(0, 500);
  used_bytes = arguments.without ? 0 : static_cast<std::size_t>(arguments.get(1, 256)) << 10;
  const auto stack_bytes = static_cast<std::size_t>(arguments.get(2, 1024)) << 10;
  stage::say("at the start");

  pthread_barrier_init(&everybody, nullptr, static_cast<unsigned>(threads + 1));
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack_bytes);
  std::vector<pthread_t> started(static_cast<std::size_t>(threads));
  for (pthread_t& thread : started)
    if (pthread_create(&thread, &attributes, work, nullptr) != 0) {
      std::fputs("thread_stacks: a thread cannot be started: fewer of them, or a higher limit (ulimit -u)\n", stderr);
      return 1;
    }
  pthread_barrier_wait(&everybody);
  stage::say("every thread has been deep, and waits");

  stage::hold(arguments);
  pthread_barrier_wait(&everybody);
  for (const pthread_t thread : started) pthread_join(thread, nullptr);
}
