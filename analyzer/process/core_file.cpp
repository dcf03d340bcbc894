#include "analyzer/process/core_file.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace heapspy::process {
namespace {

#if defined(__aarch64__)
constexpr Elf64_Half kMachine = EM_AARCH64;
#else
constexpr Elf64_Half kMachine = EM_X86_64;
#endif
constexpr std::uint64_t kLargestNotes = 256ull << 20;
constexpr std::uint64_t kMostSegments = 1u << 20;

template <typename Struct>
bool take(std::span<const std::byte> from, std::uint64_t at, Struct& to) {
  if (at > from.size() || from.size() - at < sizeof to) return false;
  std::memcpy(&to, from.data() + at, sizeof to);
  return true;
}

std::string text_of(const char* raw, std::size_t room) { return {raw, ::strnlen(raw, room)}; }

}  // namespace

CoreFile::CoreFile(const std::string& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0)
    throw CoreError(fmt::format("{} cannot be opened: {}; give a process id or a core file", path, std::strerror(errno)));
  struct stat status {};
  if (::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode)) size_ = static_cast<std::uint64_t>(status.st_size);
  try {
    read_headers();
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

CoreFile::~CoreFile() { ::close(fd_); }

std::vector<std::byte> CoreFile::bytes(std::uint64_t offset, std::uint64_t count) const {
  if (count > size_ || offset > size_ - count) return {};
  std::vector<std::byte> to(count);
  for (std::size_t done = 0; done < to.size();) {
    const ssize_t got = ::pread(fd_, to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return {};
    done += static_cast<std::size_t>(got);
  }
  return to;
}

void CoreFile::read_headers() {
  Elf64_Ehdr header{};
  if (!take(bytes(0, sizeof header), 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    throw CoreError(fmt::format("{} is neither a process id nor a core file; gcore PID writes one", path_));
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_machine != kMachine)
    throw CoreError(fmt::format("{} is of another kind of machine (ELF class {}, machine {}), which is not read", path_,
                                header.e_ident[EI_CLASS], header.e_machine));
  if (header.e_type != ET_CORE)
    throw CoreError(fmt::format("{} is an ELF file but not a core (type {}); gcore PID writes one", path_, header.e_type));
  std::uint64_t count = header.e_phnum;
  if (count == PN_XNUM) {  // more than fit: the first section header has the number
    Elf64_Shdr section{};
    if (take(bytes(header.e_shoff, sizeof section), 0, section)) count = section.sh_info;
  }
  count = std::min(count, kMostSegments);
  // Of a file that is cut within the table, what is there.
  if (header.e_phoff >= size_ || header.e_phentsize != sizeof(Elf64_Phdr)) count = 0;
  count = std::min(count, count ? (size_ - header.e_phoff) / sizeof(Elf64_Phdr) : 0);
  const std::vector<std::byte> table = bytes(header.e_phoff, count * sizeof(Elf64_Phdr));
  Elf64_Phdr each{};
  for (std::uint64_t i = 0; i < count && take(table, i * sizeof each, each); i++) {
    if (each.p_type == PT_NOTE) read_notes(bytes(each.p_offset, std::min({each.p_filesz, kLargestNotes, size_})));
    if (each.p_type != PT_LOAD || each.p_memsz > INT64_MAX || each.p_vaddr > INT64_MAX) continue;
    Mapping mapping;
    mapping.start = each.p_vaddr;
    mapping.end = each.p_vaddr + each.p_memsz;
    mapping.read = each.p_flags & PF_R;
    mapping.write = each.p_flags & PF_W;
    mapping.execute = each.p_flags & PF_X;
    mappings_.push_back(mapping);
    const std::uint64_t stored = std::min(each.p_filesz, each.p_memsz);
    const std::uint64_t there = each.p_offset < size_ ? std::min(stored, size_ - each.p_offset) : 0;
    missing_bytes_ += stored - there;
    if (there) segments_.push_back({each.p_vaddr, there, each.p_offset});
  }
  if (mappings_.empty()) throw CoreError(fmt::format("{} holds no memory: a core that was cut off at its beginning", path_));
  const auto by_start = [](const auto& a, const auto& b) { return a.start < b.start; };
  std::sort(mappings_.begin(), mappings_.end(), by_start);
  std::sort(segments_.begin(), segments_.end(), by_start);
  std::sort(files_.begin(), files_.end(), by_start);
  name_mappings();
}

void CoreFile::read_notes(const std::vector<std::byte>& notes) {
  Elf64_Nhdr header{};
  for (std::uint64_t at = 0; take(notes, at, header);) {
    const std::uint64_t name_bytes = (std::uint64_t{header.n_namesz} + 3) & ~3ull;
    const std::uint64_t data = at + sizeof header + name_bytes;
    if (data > notes.size() || header.n_descsz > notes.size() - data) return;
    read_note(header.n_type, std::span(notes).subspan(data, header.n_descsz));
    at = data + ((std::uint64_t{header.n_descsz} + 3) & ~3ull);
  }
}

void CoreFile::read_note(std::uint32_t type, std::span<const std::byte> data) {
  if (type == NT_FILE) read_files(data);
  if (type == NT_AUXV) read_auxiliary_vector(data);
  if (elf_prpsinfo info{}; type == NT_PRPSINFO && take(data, 0, info)) {
    pid_ = info.pr_pid;
    parent_ = info.pr_ppid;
    command_ = text_of(info.pr_psargs, sizeof info.pr_psargs);
    if (command_.empty()) command_ = text_of(info.pr_fname, sizeof info.pr_fname);
  }
  if (elf_prstatus status{}; type == NT_PRSTATUS && take(data, 0, status)) {
    ThreadState thread;
    thread.tid = status.pr_pid;
#if defined(__x86_64__)
    user_regs_struct registers{};
    static_assert(sizeof registers == sizeof status.pr_reg);
    std::memcpy(&registers, &status.pr_reg, sizeof registers);
    thread.thread_pointer = registers.fs_base;
    thread.stack_pointer = registers.rsp;
#elif defined(__aarch64__)
    thread.stack_pointer = status.pr_reg[31];
#endif
    if (threads_.empty()) signal_ = status.pr_cursig;  // the kernel writes the thread that ended the process first
    threads_.push_back(thread);
  }
#if defined(__aarch64__)
  if (std::uint64_t pointer = 0; type == NT_ARM_TLS && !threads_.empty() && take(data, 0, pointer))
    threads_.back().thread_pointer = pointer;
#endif
}

// count, page size, then count times start, end, offset in pages; then the names.
void CoreFile::read_files(std::span<const std::byte> data) {
  std::uint64_t count = 0, unit = 0;
  if (!take(data, 0, count) || !take(data, 8, unit) || count > data.size() / 24) return;
  std::uint64_t name_at = 16 + count * 24;
  for (std::uint64_t i = 0; i < count; i++) {
    std::uint64_t range[3];
    if (!take(data, 16 + i * 24, range) || name_at >= data.size()) return;
    Mapping file;
    file.start = range[0];
    file.end = range[1];
    file.file_offset = range[2] * unit;
    file.name = text_of(reinterpret_cast<const char*>(data.data()) + name_at, data.size() - name_at);
    file.inode = 1;  // some file; which one the note does not say
    name_at += file.name.size() + 1;
    if (file.start < file.end) files_.push_back(std::move(file));
  }
}

void CoreFile::read_auxiliary_vector(std::span<const std::byte> data) {
  Elf64_auxv_t entry{};
  for (std::uint64_t at = 0; take(data, at, entry) && entry.a_type != AT_NULL; at += sizeof entry) {
    const std::uint64_t value = entry.a_un.a_val;
    if (entry.a_type == AT_PAGESZ && value >= 4096 && value <= (1u << 20) && (value & (value - 1)) == 0) page_bytes_ = value;
    if (entry.a_type == AT_PHDR) program_headers_ = value;
  }
}

void CoreFile::name_mappings() {
  for (const Mapping& file : files_) {
    if (file.start <= program_headers_ && program_headers_ < file.end) executable_ = file.name;
    bool covered = false;
    auto at = std::upper_bound(mappings_.begin(), mappings_.end(), file.start,
                               [](std::uint64_t a, const Mapping& m) { return a < m.end; });
    for (; at != mappings_.end() && at->start < file.end; ++at) {
      at->name = file.name;
      at->inode = file.inode;
      at->file_offset = file.file_offset + (at->start > file.start ? at->start - file.start : 0);
      covered = true;
    }
    if (!covered) mappings_.insert(at, file);  // not dumped at all
  }
}

std::size_t CoreFile::read(std::uint64_t address, std::span<std::byte> to) const {
  std::size_t done = 0;
  while (done < to.size()) {
    const std::uint64_t at = address + done;
    auto above =
        std::upper_bound(segments_.begin(), segments_.end(), at, [](std::uint64_t a, const Segment& s) { return a < s.start; });
    if (above == segments_.begin()) break;
    --above;
    if (at - above->start >= above->bytes) break;
    const std::uint64_t room = std::min<std::uint64_t>(to.size() - done, above->bytes - (at - above->start));
    const ssize_t got = ::pread(fd_, to.data() + done, room, static_cast<off_t>(above->offset + (at - above->start)));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

std::uint64_t CoreFile::held_end(std::uint64_t start, std::uint64_t end) const {
  auto above =
      std::upper_bound(segments_.begin(), segments_.end(), end, [](std::uint64_t a, const Segment& s) { return a <= s.start; });
  if (above == segments_.begin()) return start;
  --above;
  return std::max(start, std::min({end, above->start + above->bytes, start + size_}));
}

// The core holds the first page of each program and library, with its build-id: the file whose first page is the same is the
// same file.
std::string CoreFile::file_of(const Mapping& mapping) const {
  if (!mapping.name.starts_with('/')) return "";
  const auto first = std::find_if(files_.begin(), files_.end(),
                                  [&](const Mapping& each) { return each.name == mapping.name && each.file_offset == 0; });
  if (first == files_.end()) return "";
  std::byte in_core[4096], on_disk[4096];
  if (read(first->start, in_core) != sizeof in_core) return "";
  const int fd = ::open(mapping.name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return "";
  const ssize_t got = ::pread(fd, on_disk, sizeof on_disk, 0);
  ::close(fd);
  return got == sizeof on_disk && std::memcmp(in_core, on_disk, sizeof in_core) == 0 ? mapping.name : "";
}

}  // namespace heapspy::process
