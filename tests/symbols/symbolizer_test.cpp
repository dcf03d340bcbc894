#include "analyzer/symbols/symbolizer.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace heapspy::test {
namespace {

namespace fs = std::filesystem;
using symbols::FoundModule;
using symbols::Locations;
using symbols::Module;
using symbols::Place;
using symbols::SearchPaths;
using symbols::Symbolizer;
using testing::EndsWith;
using testing::IsEmpty;
using testing::SizeIs;

const std::string kVictims = HEAPSPY_SYMBOLS_VICTIM;

// Return addresses in the victim's file, innermost first.
std::vector<std::uint64_t> addresses;
std::uint64_t base = 0;

void note_addresses() {
  void* frames[16];
  const int count = backtrace(frames, 16);
  for (int i = 0; i < count; i++) {
    Dl_info info;
    link_map* map = nullptr;
    if (!dladdr1(frames[i], &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) ||
        !std::string(info.dli_fname).ends_with("victim.so"))
      continue;
    base = map->l_addr;
    addresses.push_back(reinterpret_cast<std::uint64_t>(frames[i]) - base);
  }
}

std::uint32_t line_of(const std::string& call) {
  std::ifstream source(fs::path(__FILE__).parent_path() / "victim" / "victim.cpp");
  std::uint32_t number = 1;
  for (std::string line; std::getline(source, line); number++)
    if (line.ends_with("// call: " + call)) return number;
  ADD_FAILURE() << call;
  return 0;
}

class Symbols : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    void* victim = dlopen((kVictims + "/victim.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_TRUE(victim) << dlerror();
    reinterpret_cast<void (*)(void (*)())>(dlsym(victim, "victim_fill"))(note_addresses);
    ASSERT_THAT(addresses, SizeIs(2)) << "fill with add in it, victim_fill";
    ASSERT_TRUE(symbols::read_build_id(kVictims + "/victim.so", build_id));
    ASSERT_THAT(build_id, SizeIs(20));
  }
  void SetUp() override {
    folder = testing::TempDir() + "heapspy-symbols-" + std::to_string(getpid());
    fs::create_directories(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  // Locations of both frames.
  std::vector<Locations> look_up(const Module& module, const SearchPaths& search = {}) {
    Symbolizer symbolizer({module}, search);
    for (const std::uint64_t address : addresses) symbolizer.want({0, address});
    symbolizer.look_up();
    state = *symbolizer.state(0);
    std::vector<Locations> all;
    for (const std::uint64_t address : addresses) all.push_back(symbolizer.at({0, address}));
    return all;
  }
  void expect_everything(const std::vector<Locations>& at) {
    ASSERT_THAT(at[0], SizeIs(2));
    EXPECT_EQ(at[0][0].function, "shop::Basket<long>::add(void (*)(), int volatile*)");
    EXPECT_EQ(at[0][0].line, line_of("add"));
    EXPECT_THAT(at[0][0].file, EndsWith("tests/symbols/victim/victim.cpp"));
    EXPECT_EQ(at[0][1].function, "shop::fill");
    EXPECT_EQ(at[0][1].line, line_of("fill"));
    EXPECT_THAT(at[0][1].file, EndsWith("tests/symbols/victim/victim.cpp"));
    ASSERT_THAT(at[1], SizeIs(1));
    EXPECT_EQ(at[1][0].function, "victim_fill");
    EXPECT_EQ(at[1][0].line, line_of("victim_fill"));
  }
  std::string debug_file_in(const std::string& root) {
    const std::string id = symbols::build_id_text(build_id);
    const std::string to = root + "/.build-id/" + id.substr(0, 2);
    fs::create_directories(to);
    fs::copy_file(kVictims + "/victim.debug", to + "/" + id.substr(2) + ".debug");
    return to;
  }

  static std::string build_id;
  std::string folder;
  symbols::ModuleState state;
};
std::string Symbols::build_id;

TEST_F(Symbols, NameFunctionFileAndLineOfInlinedFunctionsToo) {
  expect_everything(look_up({kVictims + "/victim.so", build_id}));
  EXPECT_EQ(state.file, FoundModule::State::found);
  EXPECT_TRUE(state.debug_info);
}

TEST_F(Symbols, KnowWhatIsExportedOfAStrippedLibrary) {
  const auto at = look_up({kVictims + "/stripped/victim.so", build_id});
  EXPECT_THAT(at[0], IsEmpty()) << "not the function that happens to come before it";
  EXPECT_EQ(at[1], (Locations{{"victim_fill", "", 0}}));
  EXPECT_FALSE(state.debug_info);
}

TEST_F(Symbols, ComeFromADebugFileByBuildId) {
  debug_file_in(folder);
  SearchPaths search;
  search.extra = {folder};
  expect_everything(look_up({kVictims + "/stripped/victim.so", build_id}, search));
}

TEST_F(Symbols, ComeFromAFileTreeOfTheOtherMachine) {
  fs::create_directories(folder + "/opt/app");
  fs::copy_file(kVictims + "/stripped/victim.so", folder + "/opt/app/victim.so");
  debug_file_in(folder + "/usr/lib/debug");
  SearchPaths search;
  search.roots = {folder};
  expect_everything(look_up({"/opt/app/victim.so", build_id}, search));
}

TEST_F(Symbols, ComeFromTheDebugFileAloneWhereTheLibraryIsGone) {
  debug_file_in(folder);
  SearchPaths search;
  search.extra = {folder};
  expect_everything(look_up({"/nowhere/victim.so", build_id}, search));
  EXPECT_EQ(look_up({"/nowhere/victim.so", build_id}), std::vector<Locations>(2));
  EXPECT_EQ(state.file, FoundModule::State::missing);
}

TEST_F(Symbols, AreNotTakenFromAnotherBuild) {
  std::string other = build_id;
  other[7] = static_cast<char>(other[7] + 1);
  EXPECT_EQ(look_up({kVictims + "/victim.so", other}), std::vector<Locations>(2));
  EXPECT_EQ(state.file, FoundModule::State::changed);
  std::ofstream(folder + "/victim.so") << "no ELF file at all";
  EXPECT_EQ(look_up({folder + "/victim.so", build_id}), std::vector<Locations>(2));
  EXPECT_EQ(state.file, FoundModule::State::missing);
}

TEST_F(Symbols, AreThoseOfTheInstructionItselfWhereASignalCame) {
  Symbolizer symbolizer({{kVictims + "/victim.so", build_id}}, {});
  const Place call{0, addresses[0]}, interrupted{0, addresses[0] - 1, false};
  symbolizer.want(call);
  symbolizer.want(interrupted);
  symbolizer.look_up();
  EXPECT_EQ(symbolizer.at(call), symbolizer.at(interrupted));
}

TEST_F(Symbols, OfAddressesWithoutAModuleComeFromThePerfMap) {
  const std::string map = folder + "/perf-1.map";
  std::ofstream(map)
      << "7f0000001000 80 Interpreter\n7f0000002000 40 LMain;::old()\nnonsense\n7f0000002000 40 LMain;::new (C2)\n";
  Symbolizer symbolizer({}, {}, map);
  const Place in{symbols::kNoModule, 0x7f0000001080}, end{symbols::kNoModule, 0x7f0000001081},
      newer{symbols::kNoModule, 0x7f0000002010};
  for (const Place& place : {in, end, newer}) symbolizer.want(place);
  symbolizer.look_up();
  EXPECT_EQ(symbolizer.at(in), (Locations{{"Interpreter", "", 0}}));
  EXPECT_THAT(symbolizer.at(end), IsEmpty());
  EXPECT_EQ(symbolizer.at(newer), (Locations{{"LMain;::new (C2)", "", 0}}));
  Symbolizer later({}, {}, map, ~std::uint64_t{0});  // the process began after the map was written
  later.want(in);
  later.look_up();
  EXPECT_THAT(later.at(in), IsEmpty());
}

TEST_F(Symbols, OfFilesThatAreDamagedAreNone) {
  std::ifstream file(kVictims + "/victim.so", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  const std::string path = folder + "/victim.so";
  unsigned seed = 1;
  for (int round = 0; round < 60; round++) {
    std::string damaged = whole;
    for (int flips = 0; flips < 200; flips++) {
      seed = seed * 1103515245 + 12345;
      damaged[(seed >> 4) % damaged.size()] = static_cast<char>(seed >> 9);
    }
    if (round % 3 == 0) damaged.resize(damaged.size() * static_cast<std::size_t>(round) / 60);
    std::ofstream(path, std::ios::binary) << damaged;
    look_up({path, ""});
  }
}

}  // namespace
}  // namespace heapspy::test
