#include "tests/heap/written_core.h"

#include <elf.h>
#include <sys/procfs.h>
#include <sys/user.h>

#include <cstring>
#include <vector>

namespace heapspy::heap_test {
namespace {

template <typename Value>
void put(std::string& to, const Value& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_note(std::string& to, std::uint32_t type, const std::string& data) {
  const Elf64_Nhdr header{5, static_cast<Elf64_Word>(data.size()), type};
  put(to, header);
  to.append("CORE\0\0\0\0", 8);
  to += data;
  to.resize((to.size() + 3) & ~std::size_t{3});
}

std::string files_note(const process::Target& target) {
  std::string table, names;
  std::uint64_t count = 0;
  for (const process::Mapping& m : target.mappings()) {
    if (!m.name.starts_with('/')) continue;
    count++;
    put(table, m.start);
    put(table, m.end);
    put(table, m.file_offset / target.page_bytes());
    names += m.name;
    names += '\0';
  }
  std::string note;
  put(note, count);
  put(note, target.page_bytes());
  return note + table + names;
}

}  // namespace

std::string written_core(const process::Target& target, pid_t pid) {
  std::string notes;
  elf_prpsinfo info{};
  info.pr_pid = pid;
  std::strcpy(info.pr_psargs, "known_heap some shape");
  std::string raw;
  put(raw, info);
  put_note(notes, NT_PRPSINFO, raw);
  for (const process::ThreadState& thread : target.threads()) {
    elf_prstatus status{};
    status.pr_pid = thread.tid;
#if defined(__x86_64__)
    user_regs_struct registers{};
    registers.fs_base = thread.thread_pointer;
    registers.rsp = thread.stack_pointer;
    std::memcpy(&status.pr_reg, &registers, sizeof registers);
#endif
    raw.clear();
    put(raw, status);
    put_note(notes, NT_PRSTATUS, raw);
#if defined(__aarch64__)
    raw.clear();
    put(raw, thread.thread_pointer);
    put_note(notes, NT_ARM_TLS, raw);
#endif
  }
  put_note(notes, NT_FILE, files_note(target));

  std::vector<Elf64_Phdr> headers(1);
  std::vector<std::string> contents;
  for (const process::Mapping& m : target.mappings()) {
    Elf64_Phdr each{};
    each.p_type = PT_LOAD;
    each.p_vaddr = m.start;
    each.p_memsz = m.size_bytes();
    each.p_flags = (m.read ? PF_R : 0u) | (m.write ? PF_W : 0u) | (m.execute ? PF_X : 0u);
    std::string content;
    if (m.read && m.name != "[vvar]") {
      const bool whole = m.write && !m.shared;
      content.resize(whole ? m.size_bytes() : m.file_offset == 0 ? target.page_bytes() : 0);
      content.resize(target.read(m.start, std::as_writable_bytes(std::span(content))));
    }
    each.p_filesz = content.size();
    headers.push_back(each);
    contents.push_back(std::move(content));
  }
  std::uint64_t offset = sizeof(Elf64_Ehdr) + headers.size() * sizeof(Elf64_Phdr);
  headers[0].p_type = PT_NOTE;
  headers[0].p_offset = offset;
  headers[0].p_filesz = notes.size();
  offset += notes.size();
  for (std::size_t i = 0; i < contents.size(); i++) {
    headers[i + 1].p_offset = offset;
    offset += contents[i].size();
  }
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_CORE;
#if defined(__aarch64__)
  header.e_machine = EM_AARCH64;
#else
  header.e_machine = EM_X86_64;
#endif
  header.e_version = EV_CURRENT;
  header.e_phoff = sizeof header;
  header.e_ehsize = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = static_cast<Elf64_Half>(headers.size());
  std::string file;
  put(file, header);
  for (const Elf64_Phdr& each : headers) put(file, each);
  file += notes;
  for (const std::string& content : contents) file += content;
  return file;
}

}  // namespace heapspy::heap_test
