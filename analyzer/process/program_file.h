// What kind of program a command would start, as far as its file says: why a preloaded library may not get into it.
#pragma once
#include <string>
#include <string_view>

namespace heapspy::process {

enum class ProgramKind {
  dynamic,         // links glibc dynamically: LD_PRELOAD works
  not_found,       // no such file (in PATH)
  not_executable,  // no permission, or a folder
  static_linked,   // no dynamic linker: LD_PRELOAD is not looked at
  other_bits,      // 32-bit program
  other_machine,   // for another processor
  other_libc,      // its dynamic linker is not glibc's (musl)
  set_id,          // setuid, setgid or with file capabilities: the kernel's secure mode drops LD_PRELOAD
  unknown,         // cannot be read, or neither ELF nor a script
};

struct ProgramFile {
  ProgramKind kind = ProgramKind::unknown;
  std::string path;         // what PATH led to
  std::string runs;         // what the kernel runs: `path`, or of a script its interpreter
  std::string interpreter;  // script: the program that runs it, which `kind` speaks of; else the dynamic linker
};

// Reads the first bytes of the file that execvp would take for `command`.
ProgramFile examine_program(const std::string& command);

// Why libheapspy.so is not loaded into such a program: the end of a line that begins with its name; "" for dynamic.
std::string_view why_not_recorded(ProgramKind kind);

}  // namespace heapspy::process
