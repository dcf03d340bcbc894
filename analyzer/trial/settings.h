// The allocator settings that trials try: what each is called, and what a user would set by hand for it.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heapspy::trial {

// A setting that cannot be read. what() is one line that names the value and what is accepted.
struct BadSetting : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class SettingKind { base, arena_max, trim_threshold, mmap_threshold, tcache_count, jemalloc, tcmalloc, mimalloc, trim };

struct Setting {
  SettingKind kind = SettingKind::base;
  std::string text;         // as asked for: "arena_max=2"
  std::uint64_t value = 0;  // N, bytes; trim: milliseconds between two trims
};

// "default,arena_max=2,jemalloc". Doubles are kept once. Throws BadSetting.
std::vector<Setting> parse_settings(std::string_view list);
// What LIST may hold, for --help and messages.
std::string accepted_settings();

// "64MiB", "8g", "512": bytes, powers of 1024. nullopt where it is none.
std::optional<std::uint64_t> parse_size(std::string_view text);

// What a setting needs in order to be tried on an unrecorded program.
struct Recipe {
  std::vector<std::pair<std::string, std::string>> environment;  // NAME → value, complete
  std::string library;                                           // preloaded; "" none
  std::string unavailable;                                       // why it cannot be tried, one line; "" it can
};

// The outside world of recipe_for, so that tests can stand in for it.
struct Surroundings {
  std::function<std::string(const char* name)> environment;       // value, "" when not set
  std::function<std::optional<std::string>(const char*)> locate;  // path of an installed library by file name
  std::string program;                                            // that will be run, by name or path
};
Surroundings real_surroundings(const std::string& program);

// LD_PRELOAD and GLIBC_TUNABLES that are set already are kept: the allocator comes first, the tunable last.
Recipe recipe_for(const Setting& setting, const Surroundings& surroundings);

// "MALLOC_ARENA_MAX=2", as typed in a shell before the command; "" for default.
std::string by_hand(const Recipe& recipe);

}  // namespace heapspy::trial
