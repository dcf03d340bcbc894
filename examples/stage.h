// What the example programs share: their arguments, a line about memory at each stage, and the stop before the end.
// Nothing in it allocates, so that an example's heap holds what the example put there and nothing else.
#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace stage {

inline constexpr int kMaxNumbers = 4;

struct Arguments {
  long number[kMaxNumbers] = {};  // the plain arguments, in order
  int numbers = 0;
  long hold_seconds = 0;  // --hold SECONDS: sleep that long at the end
  bool wait = false;      // --wait: read a line from stdin at the end
  bool without = false;   // --without: leave out the thing that makes the difference (each example says what)

  long get(int index, long fallback) const { return index < numbers ? number[index] : fallback; }
};

// Ends the program with status 2 when an argument cannot be read.
inline Arguments parse(int argc, char** argv, const char* usage) {
  Arguments arguments;
  for (int i = 1; i < argc; i++) {
    char* end = nullptr;
    if (std::strcmp(argv[i], "--wait") == 0) {
      arguments.wait = true;
    } else if (std::strcmp(argv[i], "--without") == 0) {
      arguments.without = true;
    } else if (std::strcmp(argv[i], "--hold") == 0 && i + 1 < argc) {
      arguments.hold_seconds = std::strtol(argv[++i], &end, 10);
    } else if (arguments.numbers < kMaxNumbers) {
      arguments.number[arguments.numbers++] = std::strtol(argv[i], &end, 10);
    }
    const bool flag = arguments.wait || arguments.without;
    if (end != nullptr ? (*end != '\0' || end == argv[i]) : !flag) {
      std::fprintf(stderr, "%s: cannot read argument %s\nusage: %s %s [--hold SECONDS] [--wait]\n", argv[0], argv[i], argv[0],
                   usage);
      std::exit(2);
    }
  }
  return arguments;
}

// The process's resident bytes in KiB, from /proc/self/status; -1 when it cannot be read.
inline long resident_kib() {
  char text[4096];
  const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return -1;
  text[length] = '\0';
  const char* line = std::strstr(text, "VmRSS:");
  return line ? std::strtol(line + 6, nullptr, 10) : -1;
}

// "text          RSS 123.4 MiB" on stdout, by write(2): stdio would put its buffer into the heap.
inline void say(const char* text) {
  char line[256];
  const int length =
      std::snprintf(line, sizeof line, "%-44s RSS %7.1f MiB\n", text, static_cast<double>(resident_kib()) / 1024);
  if (write(STDOUT_FILENO, line, static_cast<std::size_t>(length)) < 0) std::exit(1);
}

// The stop before the end, for `heapspy trim`, `heapspy maps` and the like.
inline void hold(const Arguments& arguments) {
  char line[256];
  if (arguments.hold_seconds > 0) {
    const int length = std::snprintf(line, sizeof line, "pid %d holds for %ld s\n", getpid(), arguments.hold_seconds);
    if (write(STDOUT_FILENO, line, static_cast<std::size_t>(length)) < 0) std::exit(1);
    sleep(static_cast<unsigned>(arguments.hold_seconds));
  }
  if (arguments.wait) {
    const int length = std::snprintf(line, sizeof line, "pid %d waits for a line on stdin\n", getpid());
    if (write(STDOUT_FILENO, line, static_cast<std::size_t>(length)) < 0) std::exit(1);
    char byte = 0;
    while (read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n') {
    }
  }
  if (arguments.hold_seconds > 0 || arguments.wait) say("after the stop");
}

// Makes the compiler believe that `pointer` and what it points to are used.
template <class T>
T* keep(T* pointer) {
  asm volatile("" : "+r"(pointer) : : "memory");
  return pointer;
}

}  // namespace stage
