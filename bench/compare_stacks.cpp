// A preload in front of the recorder: looks at every stack that it writes for an allocation of any program, beside what
// libunwind's unw_backtrace says at the same place (scripts/bench-stacks). Prints to the file that COMPARE_STACKS_OUT names:
// how many were equal, how many ended earlier and why, how many differ, and the first that do.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <atomic>

#include "tests/victims/recorded_stacks.h"

namespace {

recorded::Trace trace;
int (*unw_backtrace)(void**, int);
std::atomic<long> equal, shorter[4], longer, different, missing;
std::atomic<int> shown;
FILE* out;
thread_local int busy __attribute__((tls_model("initial-exec")));
constexpr int kMost = 1024;
struct Room {
  recorded::Stack stack;
  void* frames[kMost];
};
thread_local Room* room __attribute__((tls_model("initial-exec")));

template <class Function>
Function next(Function& cached, const char* name) {
  if (!cached) cached = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
  return cached;
}
void* (*next_malloc)(size_t);
void* (*next_calloc)(size_t, size_t);
void* (*next_realloc)(void*, size_t);

// `pc`: what the hook returns to.
void compare(void* block, void* pc) {
  if (!block || !unw_backtrace || busy) return;
  busy = 1;
  if (!room) room = static_cast<Room*>(next(next_calloc, "calloc")(1, sizeof(Room)));
  recorded::Stack& s = room->stack;
  trace.stack_of(block, &s);
  const int got = unw_backtrace(room->frames, kMost);
  int first = 0;
  while (first < got && room->frames[first] != pc) first++;
  const int depth = got - first, ours = s.depth - 1;  // [0] is the hook of this library
  int same = 0;
  while (same < depth && same < ours && s.frames[same + 1] == reinterpret_cast<uint64_t>(room->frames[first + same])) same++;
  if (!s.found || s.depth == 0) {
    missing++;
  } else if (same == ours && same == depth) {
    equal++;
  } else if (same == ours && s.cut == recorded::Cut::depth) {
    equal++;
  } else if (same == ours) {
    shorter[static_cast<unsigned>(s.cut) & 3]++;
  } else if (same == depth) {
    longer++;
  } else {
    different++;
  }
  if (same != ours || (same != depth && s.cut != recorded::Cut::depth)) {
    if (shown++ < 12 && out) {
      fprintf(out, "differ at %d: depth %d cut %u, unw_backtrace %d\n", same, ours, static_cast<unsigned>(s.cut), depth);
      for (int i = same > 2 ? same - 2 : 0; i < same + 3; i++) {
        const uint64_t pcs[] = {i < ours ? s.frames[i + 1] : 0,
                                i < depth ? reinterpret_cast<uint64_t>(room->frames[first + i]) : 0};
        for (const uint64_t each : pcs) {
          Dl_info info{};
          if (each && dladdr(reinterpret_cast<void*>(each), &info) && info.dli_fname)
            fprintf(out, "  %s+%lx", info.dli_fname, each - reinterpret_cast<uint64_t>(info.dli_fbase));
          else
            fprintf(out, "  %lx", each);
        }
        fprintf(out, "\n");
      }
    }
  }
  busy = 0;
}

__attribute__((constructor)) void begin() {
  busy = 1;
  const char* path = getenv("COMPARE_STACKS_OUT");
  if (path) out = fopen(path, "a");
  if (void* library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL))
    unw_backtrace = reinterpret_cast<int (*)(void**, int)>(dlsym(library, "unw_backtrace"));
  busy = 0;
}

__attribute__((destructor)) void end() {
  busy = 1;
  if (!out || equal + different + missing < 1000) return;
  fprintf(
      out, "equal %ld, ended earlier: %ld at the end, %ld no rule, %ld bad stack; longer %ld, different %ld, not found %ld\n",
      equal.load(), shorter[0].load(), shorter[2].load(), shorter[3].load(), longer.load(), different.load(), missing.load());
  fclose(out);
}

}  // namespace

extern "C" {
void* malloc(size_t bytes) {
  void* block = next(next_malloc, "malloc")(bytes);
  compare(block, __builtin_return_address(0));
  return block;
}
void* calloc(size_t count, size_t each) {
  void* block = next(next_calloc, "calloc")(count, each);
  compare(block, __builtin_return_address(0));
  return block;
}
void* realloc(void* old, size_t bytes) {
  void* block = next(next_realloc, "realloc")(old, bytes);
  compare(block, __builtin_return_address(0));
  return block;
}
}
