#include "analyzer/symbols/symbol_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "analyzer/symbols/symbolizer.h"

namespace heapspy::test {
namespace {

namespace fs = std::filesystem;
using namespace symbols;
using testing::SizeIs;

const std::string kId = std::string("\x12\xab\x00\xff", 4) + "0123456789ABCDEF";
const std::string kSource = "/opt/shop 12 34.5\n-";

RememberedModule shop() {
  RememberedModule module;
  module.symbols = true;
  module.at[0xa1a2a3a4a5a6] = {{"add", "basket.h", 17}, {"fill", "shop.cpp", 4'000'000'000}};
  module.at[0xb1b2] = {{"fill", "shop.cpp", 0}};
  module.at[0xc1c2] = {};
  return module;
}

class SymbolCacheTest : public testing::Test {
 protected:
  SymbolCacheTest() : folder(testing::TempDir() + "heapspy-cache-" + std::to_string(getpid())) { fs::remove_all(folder); }
  ~SymbolCacheTest() override { fs::remove_all(folder); }

  std::string only_file() const {
    std::vector<std::string> files;
    for (const auto& each : fs::directory_iterator(folder)) files.push_back(each.path());
    EXPECT_THAT(files, SizeIs(1));
    return files.empty() ? "" : files[0];
  }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& each : fs::directory_iterator(folder)) sum += each.file_size();
    return sum;
  }

  std::string folder;
};

TEST_F(SymbolCacheTest, GivesBackWhatItWasGiven) {
  const SymbolCache cache(folder + "/deep/er");
  cache.write(kId, kSource, shop());
  const auto read = cache.read(kId, kSource);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->at, shop().at);
  EXPECT_TRUE(read->symbols);
  EXPECT_FALSE(cache.read("another id of a module", kSource));
  EXPECT_FALSE(cache.read(kId, kSource + " ")) << "the file has changed since";
}

TEST_F(SymbolCacheTest, TakesNothingFromAFileThatIsDamagedAnywhere) {
  const SymbolCache cache(folder);
  cache.write(kId, kSource, shop());
  std::ifstream file(only_file(), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  for (std::size_t at = 0; at < whole.size(); at++) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    std::ofstream(only_file(), std::ios::binary) << damaged;
    EXPECT_FALSE(cache.read(kId, kSource)) << at;
    std::ofstream(only_file(), std::ios::binary) << whole.substr(0, at);
    EXPECT_FALSE(cache.read(kId, kSource)) << at;
  }
  cache.write(kId, kSource, shop());
  EXPECT_TRUE(cache.read(kId, kSource)) << "and it is replaced";
}

TEST_F(SymbolCacheTest, KeepsWithinItsLimitWhatWasUsedLast) {
  SymbolCache(folder).write(kId, kSource, shop());
  const std::uint64_t one = bytes();
  const SymbolCache cache(folder, 3 * one);
  for (int i = 0; i < 10; i++) {
    for (const auto& each : fs::directory_iterator(folder))  // an hour passes
      fs::last_write_time(each.path(), fs::last_write_time(each.path()) - std::chrono::hours(1));
    if (i > 0) {
      EXPECT_TRUE(cache.read(kId, kSource)) << "used again, so it is not the oldest";
    }
    cache.write("id" + std::to_string(i), kSource, shop());
    EXPECT_LE(bytes(), 3 * one);
  }
  EXPECT_TRUE(cache.read(kId, kSource));
  EXPECT_TRUE(cache.read("id9", kSource));
  EXPECT_FALSE(cache.read("id5", kSource));
}

// A library whose symbols are known; what the cache says is told from what is true by a name that is not.
class RememberedSymbols : public SymbolCacheTest {
 protected:
  RememberedSymbols() {
    module.path = std::string(HEAPSPY_SYMBOLS_VICTIM) + "/victim.so";
    EXPECT_TRUE(read_build_id(module.path, module.build_id));
    search.cache = folder;
    for (std::uint64_t address = 0x1000; address < 0x1400; address++) code.push_back(address);
  }
  std::vector<Locations> look_up(const SearchPaths& with, std::size_t count) {
    Symbolizer symbolizer({module}, with);
    for (std::size_t i = 0; i < count; i++) symbolizer.want({0, code[i], false});
    symbolizer.look_up();
    state = *symbolizer.state(0);
    std::vector<Locations> all;
    for (std::size_t i = 0; i < count; i++) all.push_back(symbolizer.at({0, code[i], false}));
    return all;
  }
  void rename_all_in_cache(const std::string& to) {
    std::ifstream file(only_file(), std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(file), {}};
    std::uint32_t length = 0;  // the source stands after magic and checksum
    std::memcpy(&length, whole.data() + 16, sizeof length);
    const std::string source = whole.substr(20, length);
    RememberedModule known = SymbolCache(folder).read(module.build_id, source).value_or(RememberedModule());
    for (auto& [address, locations] : known.at) locations = {{to, "", 0}};
    SymbolCache(folder).write(module.build_id, source, known);
  }

  Module module;
  SearchPaths search;
  ModuleState state;
  std::vector<std::uint64_t> code;
};

TEST_F(RememberedSymbols, AreNotReadAgainAndNewOnesAreAdded) {
  const std::vector<Locations> plain = look_up({}, code.size());
  EXPECT_FALSE(fs::exists(folder)) << "without a cache nothing is kept";
  EXPECT_EQ(look_up(search, code.size() / 2), std::vector<Locations>(plain.begin(), plain.begin() + 0x200));
  rename_all_in_cache("remembered");
  const std::vector<Locations> again = look_up(search, code.size());
  for (std::size_t i = 0; i < code.size(); i++)
    EXPECT_EQ(again[i], i < code.size() / 2 ? (Locations{{"remembered", "", 0}}) : plain[i]) << i;
  EXPECT_TRUE(state.debug_info);
  rename_all_in_cache("all");
  EXPECT_EQ(look_up(search, code.size()), std::vector<Locations>(code.size(), Locations{{"all", "", 0}}));
  EXPECT_TRUE(state.debug_info);
  EXPECT_TRUE(state.symbols);
}

TEST_F(RememberedSymbols, AreReadAnewWhereTheFolderCannotBeUsed) {
  const std::vector<Locations> plain = look_up({}, code.size());
  std::ofstream(folder) << "no folder";
  EXPECT_EQ(look_up(search, code.size()), plain);
  search.cache = "/proc/heapspy";
  EXPECT_EQ(look_up(search, code.size()), plain);
}

TEST_F(RememberedSymbols, AreKeptOfModulesWithDebugInformationOnly) {
  module.path = std::string(HEAPSPY_SYMBOLS_VICTIM) + "/stripped/victim.so";
  look_up(search, code.size());
  EXPECT_FALSE(fs::exists(folder)) << "it may be installed later";
}

}  // namespace
}  // namespace heapspy::test
