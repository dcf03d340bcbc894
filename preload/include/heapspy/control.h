/* What a program may tell the recorder that is preloaded into it. C and C++; needs no library at link time.
 *
 *   #include <heapspy/control.h>
 *   heapspy_mark("cache filled");   // shows in `heapspy report` with its time
 *
 * Each call does nothing where libheapspy.so is not loaded, or is loaded and does not record. All are safe from any thread and
 * inside signal handlers, allocate nothing and leave errno alone. heapspy_snapshot() takes from a tenth of a millisecond to
 * tens of milliseconds (a JVM). */
#ifndef HEAPSPY_CONTROL_H
#define HEAPSPY_CONTROL_H

#ifdef __cplusplus
extern "C" {
#endif

/* A named moment of this thread. Text beyond 217 bytes is cut. */
__attribute__((weak)) void heapspy_mark(const char* text);
/* A residency snapshot: where RSS is now. In mode ring also a copy of the newest events. */
__attribute__((weak)) void heapspy_snapshot(void);

/* Recording off and on again. Calls of the allocator that come in between are not in the trace, and it says so: blocks that
 * were freed meanwhile seem alive until their address is given out again. Nothing where recording is off already, or on. */
__attribute__((weak)) void heapspy_stop(void);
__attribute__((weak)) void heapspy_start(void);

#ifdef __cplusplus
}
#endif

/* The functions are weak, so that a program links and starts without the library; the macros of the same names test for it.
 * x86-64: the address is taken from the global offset table, because a linker makes it a constant 0 in code that is not
 * position independent, and a preloaded library would never be seen. (`if (heapspy_mark)`, which asks for the address itself,
 * is for position-independent code only.) */
#if defined(__x86_64__)
#define HEAPSPY_IF_LOADED(function, arguments)                                                   \
  __extension__({                                                                                \
    __typeof__(&(function)) heapspy_at;                                                          \
    __asm__(".weak " #function "\n\tmovq " #function "@GOTPCREL(%%rip), %0" : "=r"(heapspy_at)); \
    if (heapspy_at) heapspy_at arguments;                                                        \
  })
#else
#define HEAPSPY_IF_LOADED(function, arguments) \
  __extension__({                              \
    if (function) (function) arguments;        \
  })
#endif

#define heapspy_mark(text) HEAPSPY_IF_LOADED(heapspy_mark, (text))
#define heapspy_stop() HEAPSPY_IF_LOADED(heapspy_stop, ())
#define heapspy_start() HEAPSPY_IF_LOADED(heapspy_start, ())
#define heapspy_snapshot() HEAPSPY_IF_LOADED(heapspy_snapshot, ())

#endif
