// What tells how a process or a program in it ends, and what a thread is called.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "control.h"
#include "event_writer.h"
#include "os.h"
#include "process_facts.h"
#include "recorder.h"
#include "thread_life.h"

using namespace heapspy;

namespace {

template <class Function>
Function next_function(Function& cached, const char* name) {
  if (!cached) cached = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
  return cached;
}

// False in the child of a vfork, which shares this memory.
bool trace_is_of_this_process() {
  return recorder && recorder->alive && recorder->file.header().pid == static_cast<uint32_t>(os::pid());
}

// exec replaces the program: its trace ends here, unless exec fails.
class Replacing {
 public:
  explicit Replacing(char* const* environment) : environment_(environment) {
    end_trace(format::End::exec);
    if (trace_is_of_this_process() && !options.follow_children) process_facts::keep_children_quiet(environment_, false);
  }
  ~Replacing() {
    if (!trace_is_of_this_process()) return;
    if (!options.follow_children) process_facts::keep_children_quiet(environment_, true);
    recorder->file.header().end = static_cast<uint32_t>(format::End::running);
  }
  Replacing(const Replacing&) = delete;
  Replacing& operator=(const Replacing&) = delete;

 private:
  char* const* environment_;
};

int execute(const char* path, char* const arguments[], char* const environment[]) {
  static int (*next)(const char*, char* const[], char* const[]);
  next_function(next, "execve");
  Replacing replacing(environment);
  return next(path, arguments, environment);
}

int execute_by_search(const char* file, char* const arguments[], char* const environment[]) {
  static int (*next)(const char*, char* const[], char* const[]);
  next_function(next, "execvpe");
  Replacing replacing(environment);
  return next(file, arguments, environment);
}

// Collects `first, …, NULL[, environment]` into an array; the variable arguments start after `first`.
#define HEAPSPY_COLLECT_ARGUMENTS(first)                                      \
  va_list list;                                                               \
  va_start(list, first);                                                      \
  size_t count = 1;                                                           \
  while (va_arg(list, char*)) count++;                                        \
  va_end(list);                                                               \
  auto* arguments = static_cast<char**>(alloca((count + 1) * sizeof(char*))); \
  va_start(list, first);                                                      \
  arguments[0] = const_cast<char*>(first);                                    \
  for (size_t i = 1; i <= count; i++) arguments[i] = va_arg(list, char*)

}  // namespace

HEAPSPY_EXPORT int execve(const char* path, char* const arguments[], char* const environment[]) noexcept {
  return execute(path, arguments, environment);
}
HEAPSPY_EXPORT int execv(const char* path, char* const arguments[]) noexcept { return execute(path, arguments, environ); }
HEAPSPY_EXPORT int execvp(const char* file, char* const arguments[]) noexcept {
  return execute_by_search(file, arguments, environ);
}
HEAPSPY_EXPORT int execvpe(const char* file, char* const arguments[], char* const environment[]) noexcept {
  return execute_by_search(file, arguments, environment);
}
HEAPSPY_EXPORT int fexecve(int fd, char* const arguments[], char* const environment[]) noexcept {
  static int (*next)(int, char* const[], char* const[]);
  next_function(next, "fexecve");
  Replacing replacing(environment);
  return next(fd, arguments, environment);
}
HEAPSPY_EXPORT int execl(const char* path, const char* argument, ...) noexcept {
  HEAPSPY_COLLECT_ARGUMENTS(argument);
  va_end(list);
  return execute(path, arguments, environ);
}
HEAPSPY_EXPORT int execlp(const char* file, const char* argument, ...) noexcept {
  HEAPSPY_COLLECT_ARGUMENTS(argument);
  va_end(list);
  return execute_by_search(file, arguments, environ);
}
HEAPSPY_EXPORT int execle(const char* path, const char* argument, ...) noexcept {
  HEAPSPY_COLLECT_ARGUMENTS(argument);
  char** environment = va_arg(list, char**);
  va_end(list);
  return execute(path, arguments, environment);
}

HEAPSPY_EXPORT void _exit(int status) {
  static void (*next)(int);
  end_trace(format::End::exit);
  next_function(next, "_exit")(status);
  __builtin_unreachable();
}
HEAPSPY_EXPORT void _Exit(int status) noexcept { _exit(status); }

HEAPSPY_EXPORT void quick_exit(int status) noexcept {
  static void (*next)(int);
  end_trace(format::End::exit);
  next_function(next, "quick_exit")(status);
  __builtin_unreachable();
}

HEAPSPY_EXPORT int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                                  void* argument) noexcept {
  static int (*next)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  const int result = next_function(next, "pthread_create")(thread, attributes, start, argument);
  const int error = errno;
  if (result == 0 && trace_is_of_this_process()) control::process_got_thread();
  errno = error;
  return result;
}
HEAPSPY_EXPORT int pthread_setname_np(pthread_t thread, const char* name) noexcept {
  static int (*next)(pthread_t, const char*);
  if (!next_function(next, "pthread_setname_np")) return ENOSYS;
  const int result = next(thread, name);
  // Another thread's name is read when that thread ends, or at a snapshot.
  if (result == 0 && pthread_equal(thread, pthread_self())) note_thread_name();
  return result;
}
