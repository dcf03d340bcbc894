#include "stack_memory.h"

namespace heapspy::unwind {

bool StackMemory::enter_other(uint64_t sp) {
  const uint64_t page = sp & ~(kPage - 1);
  if (sp >= before_.low && sp < before_.high) {
    const Range was = now_;
    now_ = before_;
    before_ = was;
    return true;
  }
  // A little below the lowest that was seen: the same stack, deeper.
  if (sp < now_.low && now_.low - page <= 64 * kPage) {
    uint64_t low = now_.low;
    while (low > page && os::is_readable(low - kPage)) low -= kPage;
    if (low == page) return now_.low = page, true;
  }
  if (!os::is_readable(page)) return false;
  before_ = now_;
  now_ = {page, page + kPage};
  return true;
}

bool StackMemory::extend(uint64_t end) {
  if (end < now_.high || end - now_.high > kFarthest) return false;
  while (now_.high < end) {
    if (!os::is_readable(now_.high)) return false;
    now_.high += kPage;
  }
  return true;
}

}  // namespace heapspy::unwind
