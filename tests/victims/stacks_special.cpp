// Stacks where they are hard. `plugins A B`: of a library that comes to the addresses of one that was unloaded. `fork`: of a
// forked child. `generated`: through code that was made at run time, with frame pointers and without. `many`: of more stacks
// than the table may hold.
#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <initializer_list>

#include "recorded_stacks.h"

namespace {

recorded::Trace trace;
recorded::Stack stack;
void* last;

[[gnu::noinline]] void allocate() { last = malloc(50); }

int plugins(const char* first, const char* second) {
  void* before = nullptr;
  for (const char* path : {first, second}) {
    void* library = dlopen(path, RTLD_NOW);
    if (!library) return 3;
    auto* call = reinterpret_cast<void* (*)()>(dlsym(library, "plugin_allocate"));
    trace.stack_of(call(), &stack);
    if (before) printf("same place %d\n", before == reinterpret_cast<void*>(call));
    before = reinterpret_cast<void*>(call);
    const char* name = strrchr(trace.path_of_module(stack.modules[0]), '/');
    printf("%s\n", name ? name + 1 : "?");
    dlclose(library);
  }
  return 0;
}

bool as_backtrace() {
  void* frames[100];
  allocate();
  const int depth = backtrace(frames, 100);
  trace.stack_of(last, &stack);
  bool same = stack.found && stack.depth == depth + 1;  // and allocate()
  for (int i = 2; i <= depth && same; i++) same = stack.frames[i] == reinterpret_cast<uint64_t>(frames[i - 1]);
  return same;
}

[[gnu::noinline]] bool deeper(int more) {
  const bool same = more ? deeper(more - 1) : as_backtrace();
  return same & (stack.depth > 0);
}

int forked() {
  void* frames[4];
  backtrace(frames, 4);
  const bool before = deeper(3);
  const pid_t child = fork();
  if (child == 0) {
    trace = {};
    const bool same = as_backtrace() && deeper(3) && deeper(5);
    _exit(same ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  printf("parent %d %d child %d\n", before, deeper(4), WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return 0;
}

[[gnu::noinline]] void through(const unsigned char* code, size_t bytes) {
  auto* at =
      static_cast<unsigned char*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  memcpy(at, code, bytes);
  for (int turn = 0; turn < 3; turn++) {
    reinterpret_cast<void (*)(void (*)())>(at)(allocate);
    trace.stack_of(last, &stack);
    const bool in_code = stack.depth > 1 && stack.frames[1] - reinterpret_cast<uint64_t>(at) < bytes;
    void* frames[100];
    const int depth = backtrace(frames, 100);
    // allocate(), the code, and what called it.
    bool whole = stack.depth == depth + 2;
    for (int i = 1; i < depth && whole; i++) whole = stack.frames[i + 2] == reinterpret_cast<uint64_t>(frames[i]);
    printf("in code %d whole %d cut %u\n", in_code, whole, static_cast<unsigned>(stack.cut));
  }
}

int generated() {
  const unsigned char with[] = {0x55, 0x48, 0x89, 0xe5,
                                0xff, 0xd7, 0x5d, 0xc3};  // push rbp; mov rbp, rsp; call rdi; pop rbp; ret
  // push rbp; mov ebp, 0x1230; call rdi; pop rbp; ret
  const unsigned char without[] = {0x55, 0xbd, 0x30, 0x12, 0x00, 0x00, 0xff, 0xd7, 0x5d, 0xc3};
  // push rbp; lea rbp, [rsp + 0x40000000]; call rdi; pop rbp; ret
  const unsigned char beyond[] = {0x55, 0x48, 0x8d, 0xac, 0x24, 0x00, 0x00, 0x00, 0x40, 0xff, 0xd7, 0x5d, 0xc3};
  void* frames[4];
  backtrace(frames, 4);
  through(with, sizeof with);
  through(without, sizeof without);
  through(beyond, sizeof beyond);
  return 0;
}

[[gnu::noinline]] void descend(unsigned way, int depth) {
  if (depth == 0) return free(malloc(10));
  if (way & 1)
    descend(way >> 1, depth - 1);
  else
    descend(way >> 1, depth - 1), last = nullptr;
  last = &last;
}

int many() {
  for (unsigned way = 0; way < 4096; way++) descend(way, 12);
  puts("done");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (!strcmp(what, "plugins") && argc == 4) return plugins(argv[2], argv[3]);
  if (!strcmp(what, "fork")) return forked();
  if (!strcmp(what, "generated")) return generated();
  if (!strcmp(what, "many")) return many();
  return 2;
}
