// The rules that the recorder takes from .eh_frame, and what it makes of bytes that are no unwind data. Damaged bytes lie
// against a page that cannot be read, so that one byte too far ends the test.
#include "unwind/eh_frame_rules.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace heapspy::test {
namespace {

using unwind::BpRule;
using unwind::Rule;
using unwind::RuleKind;
using unwind::UnwindData;

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kFunction = 0x400;  // where the functions begin that entries speak of, beyond the bytes

// Bytes right before (or behind) memory that cannot be read.
class Guarded {
 public:
  explicit Guarded(std::size_t most) : pages_((most + kPage - 1) / kPage * kPage) {
    void* mapped = ::mmap(nullptr, pages_ + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(mapped, MAP_FAILED);
    base_ = static_cast<std::uint8_t*>(mapped);
    EXPECT_EQ(::mprotect(base_ + kPage, pages_, PROT_READ | PROT_WRITE), 0);
  }
  ~Guarded() { ::munmap(base_, pages_ + 2 * kPage); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  const std::uint8_t* at_end(std::string_view bytes) {
    std::uint8_t* to = base_ + kPage + pages_ - bytes.size();
    return static_cast<const std::uint8_t*>(std::memcpy(to, bytes.data(), bytes.size()));
  }
  const std::uint8_t* at_begin(std::string_view bytes) {
    return static_cast<const std::uint8_t*>(std::memcpy(base_ + kPage, bytes.data(), bytes.size()));
  }

 private:
  std::size_t pages_;
  std::uint8_t* base_ = nullptr;
};

std::string number(std::uint64_t value, std::size_t bytes) { return std::string(reinterpret_cast<const char*>(&value), bytes); }

std::string entry(std::string content, char padding = '\0' /* DW_CFA_nop */) {
  while ((content.size() + 4) % 8) content += padding;
  return number(content.size(), 4) + content;
}

// .eh_frame: a CIE, then an FDE of 0x40 bytes of code at kFunction from the beginning of all.
struct Section {
  std::string augmentation = "zR";
  std::string augmentation_data = std::string(1, '\x1b');  // relative to its place, 32 bits
  std::string first = "\x0c\x07\x08\x90\x01";              // CFA = rsp + 8, return address at CFA - 8
  std::string instructions;
  std::int32_t back = 0;  // to the CIE; 0: as it should be
  char padding = '\0';

  std::string bytes() const {
    std::string common = number(0, 4) + '\x01' + augmentation + '\0' + "\x01\x78\x10";  // factors 1 and -8
    if (augmentation[0] == 'z') common += static_cast<char>(augmentation_data.size()) + augmentation_data;
    const std::string all = entry(common + first, padding);
    const std::uint64_t at = all.size();
    const std::string links = number(back ? static_cast<std::uint32_t>(back) : at + 4, 4);
    return all + entry(links + number(kFunction - (at + 8), 4) + number(0x40, 4) + '\0' + instructions, padding);
  }
  std::uint64_t entry_at() const { return 4 + *reinterpret_cast<const std::uint32_t*>(bytes().data()); }
};

class EhFrame : public testing::Test {
 protected:
  Rule rule(const std::string& bytes, std::uint64_t entry_at, std::uint64_t pc) {
    const std::uint8_t* at = memory_.at_end(bytes);
    const auto from = reinterpret_cast<std::uint64_t>(at);
    return unwind::rule_of_entry({at, from, from + bytes.size()}, at + entry_at, from + pc);
  }
  Rule rule(const Section& section, std::uint64_t in_function) {
    return rule(section.bytes(), section.entry_at(), kFunction + in_function);
  }
  Guarded memory_{4 * kPage};
};

void expect_rule(const Rule& rule, RuleKind kind, int offset, BpRule bp, int bp_offset) {
  EXPECT_EQ(rule.kind, kind);
  EXPECT_EQ(rule.offset, offset);
  EXPECT_EQ(rule.bp, bp);
  EXPECT_EQ(rule.bp_offset, bp_offset);
}

// push rbp (1 byte); mov rbp, rsp (3 bytes); …; leave at 0x20
TEST_F(EhFrame, FollowsAFunctionThatKeepsAFramePointer) {
  Section section;
  section.instructions = std::string("\x41\x0e\x10\x86\x02\x43\x0d\x06\x5c\x0c\x07\x08", 12);
  expect_rule(rule(section, 0), RuleKind::sp, 8, BpRule::same, 0);
  expect_rule(rule(section, 1), RuleKind::sp, 16, BpRule::at_cfa, -16);
  expect_rule(rule(section, 4), RuleKind::bp, 16, BpRule::at_cfa, -16);
  expect_rule(rule(section, 0x1f), RuleKind::bp, 16, BpRule::at_cfa, -16);
  expect_rule(rule(section, 0x20), RuleKind::sp, 8, BpRule::at_cfa, -16);
  EXPECT_EQ(rule(section, 0x40).kind, RuleKind::by_frame) << "the function ends before";
}

TEST_F(EhFrame, KnowsTheKernelsSignalFrameAndTheOutermostOne) {
  Section section;
  section.augmentation = "zRS";
  EXPECT_EQ(rule(section, 0).kind, RuleKind::signal);
  section.augmentation = "zR";
  section.instructions = "\x07\x10";  // the return address is undefined
  EXPECT_EQ(rule(section, 0).kind, RuleKind::end);
}

TEST_F(EhFrame, LeavesWhatItDoesNotUnderstand) {
  for (const std::string& instructions :
       {std::string("\x3f"), std::string("\x0b"), std::string("\x0a\x0a\x0a\x0a\x0a"), std::string("\x09\x10\x03"),
        std::string("\x0f\x01\x99"), std::string("\x0e\x80\x80\x80\x80\x80\x01"), std::string("\x0d\x40"),
        std::string("\x05\x06\x80\x80\x80\x80\x80\x01")}) {
    Section section;
    section.instructions = instructions;
    EXPECT_EQ(rule(section, 0x3f).kind, RuleKind::no_rule) << ::testing::PrintToString(instructions);
  }
}

TEST_F(EhFrame, CutAnywhereIsReadNoFurther) {
  Section section;
  section.instructions = std::string("\x41\x0e\x10\x86\x02\x43\x0d\x06\x0f\x02\x77\x08\x10\x06\x02\x76\x70", 17);
  const std::string whole = section.bytes();
  for (std::size_t size = 0; size < whole.size(); size++)
    EXPECT_NE(rule(whole.substr(0, size), section.entry_at(), kFunction + 0x3f).kind, RuleKind::sp) << size;
}

TEST_F(EhFrame, NumbersWithoutAnEndAreReadNoFurther) {
  const std::string endless(64, '\xff');
  for (const char* op :
       {"\x0e", "\x0c\x07", "\x0f", "\x10\x06", "\x16\x06", "\x05", "\x05\x06", "\x11\x06", "\x2e", "\x12\x07"}) {
    Section section;
    section.padding = '\xff';
    section.instructions = op + endless;
    EXPECT_EQ(rule(section, 0x3f).kind, RuleKind::no_rule) << ::testing::PrintToString(op);
  }
  Section section;
  section.augmentation_data = endless;
  rule(section, 0);
  section = {};
  section.padding = '\xff';
  section.first = "\x0e" + endless;
  EXPECT_EQ(rule(section, 0).kind, RuleKind::no_rule);
}

TEST_F(EhFrame, AugmentationsThatAreNoneAreReadNoFurther) {
  Section section;
  for (const char* augmentation : {"eh", "R", "x", "zX", "zPLRS", "zRRRRRRRRRRRR"}) {
    section.augmentation = augmentation;
    rule(section, 0);
  }
  // A CIE at the very end whose augmentation never ends: the FDE before it names it.
  for (const char* letters : {"RRRRRRRRRRRRRRRRRRRR", "PPPPPPPPPPPPPPPPPPPP", "LLLLLLLLLLLLLLLLLLLL", "SSSSSSSSSSSSSSSSSSSS"}) {
    const std::string common = std::string("\x01z") + letters;
    const std::string last = number(common.size() + 4, 4) + number(0, 4) + common;
    const std::string first =
        entry(number(static_cast<std::uint32_t>(-20), 4) + number(kFunction, 4) + number(0x40, 4) + std::string(4, '\0'));
    ASSERT_EQ(first.size(), 24u);
    EXPECT_EQ(rule(first + last, 0, kFunction + 8).kind, RuleKind::no_rule) << letters;
  }
}

TEST_F(EhFrame, EntriesThatNameThemselvesOrNothingHaveNoRule) {
  Section section;
  for (const std::int32_t back : {4, -4, 1, 0x7fffffff, -0x7fffffff, 20, 24}) {
    section.back = back;
    const RuleKind kind = rule(section, 0).kind;
    EXPECT_TRUE(kind == RuleKind::no_rule || kind == RuleKind::by_frame) << back;
  }
}

std::string vdso_unwind_data(std::uint64_t* header_at, std::uint64_t* code) {
  const auto base = ::getauxval(AT_SYSINFO_EHDR);
  if (!base) return {};
  const auto* elf = reinterpret_cast<const Elf64_Ehdr*>(base);
  const auto* segments = reinterpret_cast<const Elf64_Phdr*>(base + elf->e_phoff);
  for (int i = 0; i < elf->e_phnum; i++) {
    if (segments[i].p_type != PT_GNU_EH_FRAME) continue;
    const std::uint64_t header = base + segments[i].p_vaddr;
    const std::uint64_t frames = header + 4 + static_cast<std::uint64_t>(*reinterpret_cast<const std::int32_t*>(header + 4));
    std::uint64_t end = frames;
    for (std::uint32_t length; (length = *reinterpret_cast<const std::uint32_t*>(end)) != 0;) end += 4 + length;
    const std::uint64_t from = std::min(header, frames), to = std::max(header + segments[i].p_memsz, end);
    *header_at = header - from;
    *code = header + static_cast<std::uint64_t>(*reinterpret_cast<const std::int32_t*>(header + 12)) - from;
    return std::string(reinterpret_cast<const char*>(from), to - from);
  }
  return {};
}

TEST(EhFrameOfTheKernel, DamagedAnywhereIsReadNoFurther) {
  std::uint64_t header = 0, code = 0;
  const std::string whole = vdso_unwind_data(&header, &code);
  if (whole.empty()) GTEST_SKIP() << "this kernel has no vdso with unwind data";
  Guarded memory(whole.size());
  const auto count = [&](const std::string& bytes, bool at_end) {
    const std::uint8_t* at = at_end ? memory.at_end(bytes) : memory.at_begin(bytes);
    const auto from = reinterpret_cast<std::uint64_t>(at);
    std::size_t found = 0;
    for (std::uint64_t pc = code; pc < code + 0x1000; pc += 61) {
      const Rule rule = unwind::eh_frame_rule({at + header, from, from + bytes.size()}, from + pc);
      found += rule.kind == RuleKind::sp || rule.kind == RuleKind::bp;
    }
    return found;
  };
  EXPECT_GT(count(whole, true), 5u) << "undamaged it has rules";
  EXPECT_EQ(count(whole, true), count(whole, false));
  std::uint32_t seed = 1;
  const auto random = [&] { return seed = seed * 1664525 + 1013904223, seed >> 8; };
  for (int round = 0; round < 4000; round++) {
    std::string damaged = whole;
    for (std::uint32_t flips = 1 + random() % 8; flips; flips--) {
      const std::size_t at = random() % 4 ? random() % damaged.size() : header + random() % 64 % (damaged.size() - header);
      damaged[at] = static_cast<char>(random() % 3 ? random() : random() % 2 ? 0xff : 0);
    }
    count(damaged, round % 2);
  }
}

}  // namespace
}  // namespace heapspy::test
