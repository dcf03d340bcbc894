// A program that enters seccomp may forbid any system call, on pain of death: from then on the recorder makes none. What was
// recorded is in the file already, through the mapping of the rings.
//
// prctl and syscall are how the C library and libseccomp ask for it; a program that asks the kernel by an instruction of its
// own is not seen.
#include <dlfcn.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "hot.h"
#include "recorder.h"

using namespace heapspy;

namespace {

// Before the filter takes effect. Where the kernel refuses it, recording goes on.
class Sandboxed {
 public:
  explicit Sandboxed(bool entering) : resting_(entering && go_to_rest()) {}
  void end(bool entered) {
    if (resting_ && !entered) wake_up();
  }

 private:
  bool resting_;
};

}  // namespace

HEAPSPY_EXPORT int prctl(int option, ...) noexcept {
  static int (*next)(int, unsigned long, unsigned long, unsigned long, unsigned long);
  va_list list;
  va_start(list, option);
  unsigned long more[4];
  for (unsigned long& each : more) each = va_arg(list, unsigned long);
  va_end(list);
  if (!next) next = reinterpret_cast<decltype(next)>(dlsym(RTLD_NEXT, "prctl"));
  Sandboxed sandboxed(option == PR_SET_SECCOMP && (more[0] == SECCOMP_MODE_STRICT || more[0] == SECCOMP_MODE_FILTER));
  const int result = next(option, more[0], more[1], more[2], more[3]);
  sandboxed.end(result == 0);
  return result;
}

HEAPSPY_EXPORT long syscall(long number, ...) noexcept {
  static long (*next)(long, long, long, long, long, long, long);
  va_list list;
  va_start(list, number);
  long more[6];
  for (long& each : more) each = va_arg(list, long);
  va_end(list);
  if (!next) next = reinterpret_cast<decltype(next)>(dlsym(RTLD_NEXT, "syscall"));
  Sandboxed sandboxed(number == SYS_seccomp && (more[0] == SECCOMP_SET_MODE_STRICT || more[0] == SECCOMP_SET_MODE_FILTER));
  const long result = next(number, more[0], more[1], more[2], more[3], more[4], more[5]);
  sandboxed.end(result >= 0);
  return result;
}
