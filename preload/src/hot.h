// How the hot paths are marked.
#pragma once

#define HEAPSPY_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define HEAPSPY_UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define HEAPSPY_HOT inline __attribute__((always_inline))
#define HEAPSPY_COLD [[gnu::cold, gnu::noinline]]
#define HEAPSPY_EXPORT extern "C" __attribute__((visibility("default")))
