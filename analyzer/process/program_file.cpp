#include "analyzer/process/program_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace heapspy::process {
namespace {

constexpr int kMaxInterpreters = 4;  // as the kernel: scripts whose interpreter is a script

ProgramKind accessible(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return ProgramKind::not_found;
  if (!S_ISREG(status.st_mode) || ::access(path.c_str(), X_OK) != 0) return ProgramKind::not_executable;
  return ProgramKind::dynamic;
}

std::string look_up(const std::string& command, ProgramKind& kind) {
  if (command.find('/') != std::string::npos) {
    kind = accessible(command);
    return command;
  }
  kind = ProgramKind::not_found;
  const char* variable = std::getenv("PATH");
  const std::string folders = variable != nullptr ? variable : "/bin:/usr/bin";
  std::string refused = command;
  for (std::size_t at = 0; at <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', at), folders.size());
    std::string path = end == at ? "." : folders.substr(at, end - at);
    path.append("/").append(command);
    const ProgramKind found = accessible(path);
    if (found == ProgramKind::dynamic) {
      kind = found;
      return path;
    }
    if (found == ProgramKind::not_executable && kind == ProgramKind::not_found) {
      kind = found;
      refused = path;
    }
    at = end + 1;
  }
  return refused;
}

template <typename Struct>
bool read_struct(int fd, std::uint64_t offset, Struct& to) {
  return ::pread(fd, &to, sizeof to, static_cast<off_t>(offset)) == static_cast<ssize_t>(sizeof to);
}

constexpr int kOwnMachine =
#if defined(__x86_64__)
    EM_X86_64;
#elif defined(__aarch64__)
    EM_AARCH64;
#else
    EM_NONE;
#endif

ProgramKind examine_elf(int fd, bool is_linker, std::string& interpreter) {
  Elf64_Ehdr header{};
  if (!read_struct(fd, 0, header)) return ProgramKind::unknown;
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return ProgramKind::other_bits;
  if (kOwnMachine != EM_NONE && header.e_machine != kOwnMachine) return ProgramKind::other_machine;
  for (unsigned i = 0; i < header.e_phnum; i++) {
    Elf64_Phdr segment{};
    if (!read_struct(fd, header.e_phoff + std::uint64_t{i} * header.e_phentsize, segment)) return ProgramKind::unknown;
    if (segment.p_type != PT_INTERP) continue;
    std::string path(std::min<std::uint64_t>(segment.p_filesz, 4096), '\0');
    if (::pread(fd, path.data(), path.size(), static_cast<off_t>(segment.p_offset)) < 0) return ProgramKind::unknown;
    interpreter = path.c_str();
    return interpreter.find("ld-linux") != std::string::npos ? ProgramKind::dynamic : ProgramKind::other_libc;
  }
  // ld.so itself has no interpreter and obeys LD_PRELOAD for the program it is given.
  return is_linker ? ProgramKind::unknown : ProgramKind::static_linked;
}

bool gains_rights(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return false;
  if ((status.st_mode & S_ISUID) != 0 && status.st_uid != ::getuid()) return true;
  if ((status.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && status.st_gid != ::getgid()) return true;
  return ::getuid() != 0 && ::fgetxattr(fd, "security.capability", nullptr, 0) > 0;
}

}  // namespace

ProgramFile examine_program(const std::string& command) {
  ProgramFile program;
  program.path = look_up(command, program.kind);
  std::string path = program.path;
  for (int depth = 0; program.kind == ProgramKind::dynamic && depth < kMaxInterpreters; depth++) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
      program.kind = ProgramKind::unknown;
      break;
    }
    char start[256] = {};
    const ssize_t got = ::pread(fd, start, sizeof start - 1, 0);
    const bool script = got > 2 && start[0] == '#' && start[1] == '!';
    if (got >= SELFMAG && std::memcmp(start, ELFMAG, SELFMAG) == 0)
      program.kind =
          gains_rights(fd) ? ProgramKind::set_id : examine_elf(fd, path.find("/ld-") != std::string::npos, program.interpreter);
    else if (!script)
      program.kind = ProgramKind::unknown;
    ::close(fd);
    if (!script) break;
    const std::size_t from = 2 + std::strspn(start + 2, " \t");
    path.assign(start + from, std::strcspn(start + from, " \t\n"));
    program.interpreter = path;
    program.kind = accessible(path);
  }
  program.runs = path;
  return program;
}

std::string_view why_not_recorded(ProgramKind kind) {
  switch (kind) {
    case ProgramKind::dynamic: return "";
    case ProgramKind::not_found: return "is not there";
    case ProgramKind::not_executable: return "is not executable";
    case ProgramKind::static_linked: return "is statically linked, so LD_PRELOAD has no effect on it";
    case ProgramKind::other_bits: return "is a 32-bit program, and libheapspy.so is 64-bit";
    case ProgramKind::other_machine: return "is a program for another processor";
    case ProgramKind::other_libc: return "is linked to another C library than glibc (musl)";
    case ProgramKind::set_id: return "gains rights when it starts (setuid, setgid or capabilities), so LD_PRELOAD is ignored";
    case ProgramKind::unknown: return "is of a kind that cannot be told";
  }
  return "";
}

}  // namespace heapspy::process
