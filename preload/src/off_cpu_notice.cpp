#include "off_cpu_notice.h"

#include <dlfcn.h>

namespace heapspy::off_cpu_notice {

Descriptor descriptor;
namespace {

intptr_t offset = 0;  // from the thread pointer

// The kernel demands RSEQ_SIG (0x53053053 on x86, sys/rseq.h) in the four bytes before the abort address, and that the
// abort address lies outside the range. Neither is ever jumped to.
alignas(8) const uint32_t signature_then_abort[2] = {0x53053053, 0};
const char never_executed[8] = {};
}  // namespace

bool set_up() {
#if defined(__x86_64__)
  descriptor.start = reinterpret_cast<uint64_t>(never_executed);
  descriptor.length = 1;
  descriptor.abort = reinterpret_cast<uint64_t>(&signature_then_abort[1]);
  // Looked up and not linked: glibc before 2.35 lacks them. __rseq_size is 0 where the kernel or a tunable said no.
  const auto* area = static_cast<const ptrdiff_t*>(dlsym(RTLD_DEFAULT, "__rseq_offset"));
  const auto* size = area ? static_cast<const unsigned*>(dlsym(RTLD_DEFAULT, "__rseq_size")) : nullptr;
  if (area && size && *size) {
    offset = *area + 8;
    return true;
  }
#endif
  offset = reinterpret_cast<char*>(&tls.no_rseq) - reinterpret_cast<char*>(__builtin_thread_pointer());
  return false;
}

volatile uint64_t* word_of_this_thread() {
  return reinterpret_cast<volatile uint64_t*>(reinterpret_cast<char*>(__builtin_thread_pointer()) + offset);
}

}  // namespace heapspy::off_cpu_notice
