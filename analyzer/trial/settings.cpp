#include "analyzer/trial/settings.h"

#include <fmt/core.h>
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace heapspy::trial {
namespace {

enum class Argument { none, count, size, seconds };

struct Description {
  SettingKind kind;
  const char* name;
  Argument argument;
  std::uint64_t low, high;  // of counts
  const char* library;      // preloaded, or null
  const char* package;      // Debian's, that brings it
};
// Debian 13 and Ubuntu 24.04 ship mimalloc's library as libmimalloc.so.2 (libmimalloc2.0); .so.3 is not in either.
constexpr Description kDescriptions[] = {
    {SettingKind::base, "default", Argument::none, 0, 0, nullptr, nullptr},
    {SettingKind::arena_max, "arena_max", Argument::count, 1, 1000000, nullptr, nullptr},
    {SettingKind::trim_threshold, "trim_threshold", Argument::size, 0, 0, nullptr, nullptr},
    {SettingKind::mmap_threshold, "mmap_threshold", Argument::size, 0, 0, nullptr, nullptr},
    {SettingKind::tcache_count, "tcache_count", Argument::count, 0, 65535, nullptr, nullptr},
    {SettingKind::jemalloc, "jemalloc", Argument::none, 0, 0, "libjemalloc.so.2", "libjemalloc2"},
    {SettingKind::tcmalloc, "tcmalloc", Argument::none, 0, 0, "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"},
    {SettingKind::mimalloc, "mimalloc", Argument::none, 0, 0, "libmimalloc.so.2", "libmimalloc2.0"},
    {SettingKind::trim, "trim", Argument::seconds, 0, 0, nullptr, nullptr},
};

const Description& description(SettingKind kind) {
  return *std::find_if(std::begin(kDescriptions), std::end(kDescriptions),
                       [kind](const auto& each) { return each.kind == kind; });
}

std::optional<std::uint64_t> parse_count(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "0.5", "10": to whole milliseconds; at least one.
std::optional<std::uint64_t> parse_seconds(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= 0.001) || value > 1e6) return std::nullopt;
  return static_cast<std::uint64_t>(std::llround(value * 1000));
}

Setting parse_setting(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  const auto found =
      std::find_if(std::begin(kDescriptions), std::end(kDescriptions), [name](const auto& each) { return name == each.name; });
  if (found == std::end(kDescriptions))
    throw BadSetting(fmt::format("\"{}\" is no setting; there are {}", text, accepted_settings()));
  Setting setting{found->kind, std::string(text), 0};
  if (found->argument == Argument::none) {
    if (equals == std::string_view::npos) return setting;
    throw BadSetting(fmt::format("\"{}\": {} takes no value", text, name));
  }
  const std::string_view value = equals == std::string_view::npos ? "" : text.substr(equals + 1);
  const auto accept = [&](std::optional<std::uint64_t> number, const std::string& what) {
    if (!number) throw BadSetting(fmt::format("\"{}\": {} takes {}", text, name, what));
    setting.value = *number;
  };
  switch (found->argument) {
    case Argument::none: break;
    case Argument::size: accept(parse_size(value), fmt::format("a size, as in {}=128KiB", name)); break;
    case Argument::seconds: accept(parse_seconds(value), fmt::format("seconds, as in {}=10", name)); break;
    case Argument::count: {
      auto number = parse_count(value);
      if (number && (*number < found->low || *number > found->high)) number.reset();
      accept(number, fmt::format("a number from {} to {}, as in {}=2", found->low, found->high, name));
      break;
    }
  }
  return setting;
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::optional<std::string> locate_library(const char* file) {
  // Debian's multiarch folder first, then those of other distributions and of local builds.
  for (const char* pattern :
       {"/usr/lib/*-linux-gnu/", "/lib/*-linux-gnu/", "/usr/lib64/", "/usr/lib/", "/usr/local/lib/", "/usr/local/lib64/"}) {
    glob_t names{};
    std::optional<std::string> path;
    if (::glob((std::string(pattern) + file).c_str(), 0, nullptr, &names) == 0)
      for (std::size_t i = 0; i < names.gl_pathc && !path; i++)
        if (::access(names.gl_pathv[i], R_OK) == 0) path = names.gl_pathv[i];
    ::globfree(&names);
    if (path) return path;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  int shift = -1;
  if (unit.empty() || unit == "B") shift = 0;
  if (unit == "k" || unit == "K" || unit == "KiB") shift = 10;
  if (unit == "m" || unit == "M" || unit == "MiB") shift = 20;
  if (unit == "g" || unit == "G" || unit == "GiB") shift = 30;
  if (shift < 0 || value > (UINT64_MAX >> shift)) return std::nullopt;
  return value << shift;
}

std::vector<Setting> parse_settings(std::string_view list) {
  std::vector<Setting> settings;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    Setting setting = parse_setting(list.substr(at, end - at));
    const bool known =
        std::any_of(settings.begin(), settings.end(), [&](const Setting& each) { return each.text == setting.text; });
    if (!known) settings.push_back(std::move(setting));
    at = end + 1;
  }
  return settings;
}

std::string accepted_settings() {
  std::string text;
  for (const Description& each : kDescriptions) {
    text += text.empty() ? "" : ", ";
    text += each.name;
    if (each.argument == Argument::count) text += "=N";
    if (each.argument == Argument::size) text += "=SIZE";
    if (each.argument == Argument::seconds) text += "=SECONDS";
  }
  return text;
}

Surroundings real_surroundings(const std::string& program) {
  return {[](const char* name) {
            const char* value = std::getenv(name);
            return std::string(value != nullptr ? value : "");
          },
          locate_library, program};
}

Recipe recipe_for(const Setting& setting, const Surroundings& surroundings) {
  Recipe recipe;
  const auto set = [&](const char* name, std::string value) { recipe.environment.emplace_back(name, std::move(value)); };
  switch (setting.kind) {
    case SettingKind::base: break;
    case SettingKind::arena_max: set("MALLOC_ARENA_MAX", std::to_string(setting.value)); break;
    case SettingKind::trim_threshold: set("MALLOC_TRIM_THRESHOLD_", std::to_string(setting.value)); break;
    case SettingKind::mmap_threshold: set("MALLOC_MMAP_THRESHOLD_", std::to_string(setting.value)); break;
    case SettingKind::tcache_count: {
      const std::string present = surroundings.environment("GLIBC_TUNABLES");
      set("GLIBC_TUNABLES",
          fmt::format("{}{}glibc.malloc.tcache_count={}", present, present.empty() ? "" : ":", setting.value));
      break;
    }
    case SettingKind::jemalloc:
    case SettingKind::tcmalloc:
    case SettingKind::mimalloc: {
      const Description& what = description(setting.kind);
      const auto path = surroundings.locate(what.library);
      if (!path) {
        recipe.unavailable =
            fmt::format("{} is not installed; apt install {} brings {}", setting.text, what.package, what.library);
        break;
      }
      recipe.library = *path;
      const std::string present = surroundings.environment("LD_PRELOAD");
      set("LD_PRELOAD", present.empty() ? *path : *path + ":" + present);
      break;
    }
    case SettingKind::trim:
      // JVMs (17.0.9, 21 and newer) trim by themselves when asked to; nothing else can be made to from outside.
      if (base_name(surroundings.program) == "java") {
        const std::string present = surroundings.environment("JAVA_TOOL_OPTIONS");
        set("JAVA_TOOL_OPTIONS",
            fmt::format("{}{}-XX:TrimNativeHeapInterval={}", present, present.empty() ? "" : " ", setting.value));
      } else {
        recipe.unavailable = fmt::format(
            "{} is not tried: nothing calls malloc_trim in a program that runs unrecorded; try heapspy record, then heapspy "
            "trim",
            setting.text);
      }
      break;
  }
  return recipe;
}

std::string by_hand(const Recipe& recipe) {
  std::string text;
  for (const auto& [name, value] : recipe.environment) {
    const bool quote = value.find_first_of(" \t$&;*?()<>|'\"\\") != std::string::npos;
    text += fmt::format("{}{}={}{}{}", text.empty() ? "" : " ", name, quote ? "'" : "", value, quote ? "'" : "");
  }
  return text;
}

}  // namespace heapspy::trial
