#include "analyzer/symbols/module_file.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <libelf.h>

namespace heapspy::symbols {

namespace {

constexpr const char* kDebugFolder = "/usr/lib/debug";

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_file(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode);
}

// "/.build-id/ab/cdef…"
std::string by_build_id(const std::string& raw) {
  const std::string text = build_id_text(raw);
  return text.size() > 2 ? "/.build-id/" + text.substr(0, 2) + "/" + text.substr(2) : std::string();
}

}  // namespace

std::string build_id_text(const std::string& raw) {
  std::string text;
  for (const char byte : raw) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

bool read_build_id(const std::string& path, std::string& to) {
  to.clear();
  if (!is_file(path)) return false;  // a pipe or a device would block, or worse
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  elf_version(EV_CURRENT);
  Elf* elf = elf_begin(fd, ELF_C_READ_MMAP, nullptr);
  const bool is_elf = elf && elf_kind(elf) == ELF_K_ELF;
  if (is_elf) {
    const void* id = nullptr;
    if (const ssize_t bytes = dwelf_elf_gnu_build_id(elf, &id); bytes > 0)
      to.assign(static_cast<const char*>(id), static_cast<std::size_t>(bytes));
  }
  elf_end(elf);
  ::close(fd);
  return is_elf;
}

std::vector<std::string> debug_folders(const SearchPaths& search) {
  std::vector<std::string> folders;
  for (const std::string& root : search.roots) folders.push_back(root + kDebugFolder);
  for (const std::string& folder : search.extra) {
    folders.push_back(folder);
    folders.push_back(folder + kDebugFolder);
  }
  folders.emplace_back(kDebugFolder);
  return folders;
}

FoundModule find_module(const Module& module, const SearchPaths& search) {
  FoundModule found;
  const auto matches = [&](const std::string& path) {
    std::string id;
    if (!read_build_id(path, id)) return false;
    if (module.build_id.empty() || id == module.build_id) return true;
    if (path == module.path) found.state = FoundModule::State::changed;
    return false;
  };
  const auto take = [&](const std::string& path) {
    if (!found.binary.empty() || !matches(path)) return;
    found.binary = path;
    found.state = FoundModule::State::found;
  };
  for (const std::string& root : search.roots) take(root + module.path);
  take(module.path);
  for (const std::string& folder : search.extra) {
    take(folder + module.path);
    take(folder + "/" + file_name(module.path));
  }
  const std::string id = by_build_id(module.build_id);
  if (id.empty()) return found;
  for (const std::string& folder : debug_folders(search)) {
    take(folder + id);
    if (found.debug.empty() && matches(folder + id + ".debug")) found.debug = folder + id + ".debug";
  }
  for (const std::string& folder : search.extra) {  // as they come out of a build
    const std::string beside = folder + "/" + file_name(module.path) + ".debug";
    if (found.debug.empty() && matches(beside)) found.debug = beside;
  }
  take(found.debug);  // has the addresses of functions too
  return found;
}

}  // namespace heapspy::symbols
