// What the program sets of its allocator while it runs: no environment tells it, and it overrides what one says.
#include <dlfcn.h>
#include <errno.h>

#include "heapspy/format/mallopt_name.h"
#include "hot.h"
#include "moment.h"
#include "text.h"

using namespace heapspy;

namespace {

void note(int parameter, int value) {
  char buffer[64];
  Text text(buffer, sizeof buffer);
  text.add(format::kMalloptBegins);
  const char* name = nullptr;
  for (const format::MalloptName& each : format::kMalloptNames)
    if (each.parameter == parameter) name = each.name;
  if (!name) return;
  text.add(name).add(", ");
  if (value < 0) text.add("-");
  text.add_number(value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value)).add(")");
  write_moment(format::Kind::mark, buffer);
}

}  // namespace

HEAPSPY_EXPORT int mallopt(int parameter, int value) noexcept {
  static int (*next)(int, int);
  if (!next) next = reinterpret_cast<int (*)(int, int)>(dlsym(RTLD_NEXT, "mallopt"));
  const int result = next ? next(parameter, value) : 0;
  const int error = errno;
  if (result == 1 && may_write_moment()) note(parameter, value);
  errno = error;
  return result;
}
