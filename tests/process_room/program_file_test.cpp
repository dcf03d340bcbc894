#include "analyzer/process/program_file.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace heapspy::process {
namespace {

class ProgramFileTest : public testing::Test {
 protected:
  ProgramFileTest() {
    char name[] = "/var/tmp/heapspy-test-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~ProgramFileTest() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& content, mode_t mode = 0755) const {
    const std::string path = folder_ + "/program";
    std::ofstream(path, std::ios::binary) << content;
    ::chmod(path.c_str(), mode);
    return path;
  }
  // An ELF file of one segment, PT_INTERP where `interpreter` is not empty.
  static std::string elf(unsigned char bits, Elf64_Half machine, const std::string& interpreter) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = bits;
    header.e_type = ET_EXEC;
    header.e_machine = machine;
    header.e_phoff = sizeof header;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 1;
    Elf64_Phdr segment{};
    segment.p_type = interpreter.empty() ? PT_LOAD : PT_INTERP;
    segment.p_offset = sizeof header + sizeof segment;
    segment.p_filesz = interpreter.size() + 1;
    std::string file(sizeof header + sizeof segment, '\0');
    std::memcpy(file.data(), &header, sizeof header);
    std::memcpy(file.data() + sizeof header, &segment, sizeof segment);
    return file + interpreter + '\0';
  }
  static constexpr Elf64_Half kMachine =
#ifdef __aarch64__
      EM_AARCH64;
#else
      EM_X86_64;
#endif

  std::string folder_;
};

TEST_F(ProgramFileTest, FindsAProgramInThePath) {
  const ProgramFile shell = examine_program("sh");
  EXPECT_EQ(shell.kind, ProgramKind::dynamic);
  EXPECT_TRUE(shell.path.ends_with("/sh"));
  EXPECT_EQ(examine_program("heapspy-no-such-program").kind, ProgramKind::not_found);
  EXPECT_EQ(examine_program("/etc").kind, ProgramKind::not_executable);
}

TEST_F(ProgramFileTest, TellsWhyAPreloadWouldNotGetIn) {
  EXPECT_EQ(examine_program(write(elf(ELFCLASS64, kMachine, "/lib64/ld-linux-x86-64.so.2"))).kind, ProgramKind::dynamic);
  EXPECT_EQ(examine_program(write(elf(ELFCLASS64, kMachine, ""))).kind, ProgramKind::static_linked);
  EXPECT_EQ(examine_program(write(elf(ELFCLASS32, kMachine, ""))).kind, ProgramKind::other_bits);
  EXPECT_EQ(examine_program(write(elf(ELFCLASS64, EM_RISCV, ""))).kind, ProgramKind::other_machine);
  EXPECT_EQ(examine_program(write(elf(ELFCLASS64, kMachine, "/lib/ld-musl-x86_64.so.1"))).kind, ProgramKind::other_libc);
  EXPECT_EQ(examine_program(write("MZ and so on")).kind, ProgramKind::unknown);
  EXPECT_EQ(examine_program(write("")).kind, ProgramKind::unknown);
  EXPECT_EQ(examine_program(write("#!/bin/sh\n", 0644)).kind, ProgramKind::not_executable);
  EXPECT_EQ(why_not_recorded(ProgramKind::static_linked), "is statically linked, so LD_PRELOAD has no effect on it");
  EXPECT_EQ(why_not_recorded(ProgramKind::dynamic), "");
}

TEST_F(ProgramFileTest, LooksThroughAScriptAtItsInterpreter) {
  const ProgramFile script = examine_program(write("#! /bin/sh -e\nexit\n"));
  EXPECT_EQ(script.kind, ProgramKind::dynamic);
  EXPECT_NE(script.interpreter.find("ld-linux"), std::string::npos);
  const ProgramFile broken = examine_program(write("#!/no/such/interpreter\n"));
  EXPECT_EQ(broken.kind, ProgramKind::not_found);
  EXPECT_EQ(broken.interpreter, "/no/such/interpreter");
}

TEST_F(ProgramFileTest, EndsOnAScriptThatNamesItself) {
  const std::string path = folder_ + "/program";
  EXPECT_EQ(examine_program(write("#!" + path + "\n")).path, path);
}

TEST_F(ProgramFileTest, IsTotalOnAnElfFileCutAnywhere) {
  const std::string whole = elf(ELFCLASS64, kMachine, "/lib64/ld-linux-x86-64.so.2");
  for (std::size_t length = 0; length < whole.size(); length++) examine_program(write(whole.substr(0, length)));
}

}  // namespace
}  // namespace heapspy::process
