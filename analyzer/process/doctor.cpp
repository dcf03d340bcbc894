#include "analyzer/process/doctor.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "analyzer/process/elf_facts.h"
#include "analyzer/process/mappings.h"
#include "analyzer/process/program_file.h"
#include "heapspy/format/layout.h"

namespace heapspy::process {
namespace {

using Kind = Observation::Kind;

constexpr const char* kLibrary = "libheapspy.so";
constexpr const char* kVariables[] = {"HEAPSPY_OUT",   "HEAPSPY_MODE",     "HEAPSPY_STACKS",  "HEAPSPY_JAVA",
                                      "HEAPSPY_CLOCK", "HEAPSPY_DEPTH",    "HEAPSPY_SAMPLE",  "HEAPSPY_RING",
                                      "HEAPSPY_MAX",   "HEAPSPY_SNAPSHOT", "HEAPSPY_TRIGGER", "HEAPSPY_CHILDREN",
                                      "HEAPSPY_ONLY",  "HEAPSPY_TOUCH",    "HEAPSPY_CONTROL", "HEAPSPY_LOG"};

std::vector<std::string> split(std::string_view text, std::string_view separators) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(separators), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::optional<std::string> value_of(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string& each : environment)
    if (each.size() > name.size() && each.starts_with(name) && each[name.size()] == '=') return each.substr(name.size() + 1);
  return std::nullopt;
}

bool is_recorder(std::string_view path) { return path.substr(path.rfind('/') + 1) == kLibrary; }

// Changes of one letter that turn `a` into `b`.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); j++) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); i++) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); j++) {
      const std::size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

// As glibc's tunables read one (elf/dl-tunables.c: strtoul, then the bounds).
bool is_number_for(const std::string& name, const std::string& value) {
  std::uint64_t number = 0;
  const bool hex = value.starts_with("0x");
  const char* const end = value.data() + value.size();
  const auto [at, error] = std::from_chars(value.data() + (hex ? 2 : 0), end, number, hex ? 16 : 10);
  return error == std::errc() && at == end && (number > 0 || name != "MALLOC_ARENA_MAX");
}

class Examination {
 public:
  Examination(std::vector<std::string> environment, const DoctorPlan& plan)
      : environment_(std::move(environment)), plan_(plan) {}

  void say(Kind kind, const char* topic, std::string text, std::string fix = "") {
    if (kind == Kind::why) diagnosis.recorded = false;
    diagnosis.observations.push_back({kind, topic, std::move(text), std::move(fix)});
  }

  // → the variables that the recorder reads.
  std::vector<std::string> unknown_settings() {
    std::vector<std::string> ours;
    for (const std::string& each : environment_) {
      if (!each.starts_with("HEAPSPY_")) continue;
      const std::string name = each.substr(0, each.find('='));
      if (std::find(std::begin(kVariables), std::end(kVariables), name) != std::end(kVariables)) {
        ours.push_back(each);
        continue;
      }
      const auto* nearest = std::min_element(std::begin(kVariables), std::end(kVariables), [&](auto* left, auto* right) {
        return distance(name, left) < distance(name, right);
      });
      say(Kind::warn, "settings", name + " is no setting of the recorder and has no effect",
          distance(name, *nearest) <= 3 ? fmt::format("write {}", *nearest) : "heapspy record --help names them");
    }
    return ours;
  }

  void settings() {
    const std::size_t before = diagnosis.observations.size();
    const std::vector<std::string> ours = unknown_settings();
    bool all_well = diagnosis.observations.size() == before;
    if (plan_.try_settings)
      if (const std::string refusal = plan_.try_settings(ours); !refusal.empty()) {
        all_well = false;
        say(Kind::why, "settings", refusal, "set it to one of these, or leave it out");
      }
    if (const auto mode = value_of(environment_, "HEAPSPY_MODE"); mode == "off") {
      all_well = false;
      say(Kind::why, "settings", "HEAPSPY_MODE=off: the library is loaded and records nothing", "leave HEAPSPY_MODE out");
    }
    if (all_well && !ours.empty()) say(Kind::ok, "settings", fmt::format("{} understood", joined(ours)));
  }

  // `program`: the name that HEAPSPY_ONLY is matched with.
  void only(const std::string& program, bool (*matches)(const std::string& pattern, const std::string& text)) {
    const auto pattern = value_of(environment_, "HEAPSPY_ONLY");
    if (pattern && !matches(*pattern, program))
      say(Kind::why, "settings", fmt::format("HEAPSPY_ONLY={} does not match {}", *pattern, program),
          "leave HEAPSPY_ONLY out, or name this program too");
  }

  // `secure`: the kernel started it in secure mode, where the C library looks at no such variable.
  void tunables(bool glibc, bool secure) {
    std::vector<std::string> set;
    for (const std::string& each : environment_)
      if (each.starts_with("MALLOC_") || each.starts_with("GLIBC_TUNABLES=")) set.push_back(each);
    if (set.empty()) return;
    if (!glibc)
      return say(Kind::warn, "tunables", joined(set) + ": of glibc's malloc, which does not answer here",
                 "use the settings of the allocator that does");
    if (secure)
      return say(Kind::warn, "tunables", joined(set) + ": ignored, because the program gains rights when it starts",
                 "mallopt() in the program is the only way");
    bool all_well = true;
    const std::string tunables = value_of(environment_, "GLIBC_TUNABLES").value_or("");
    for (const std::string& each : split(tunables, ":")) {
      const std::string name = each.substr(0, each.find('='));
      const bool known =
          plan_.tunables.empty() || std::find(plan_.tunables.begin(), plan_.tunables.end(), name) != plan_.tunables.end();
      if (known && each.find('=') != std::string::npos) continue;
      all_well = false;
      say(Kind::warn, "tunables",
          known ? fmt::format("GLIBC_TUNABLES: {} has no value", name)
                : fmt::format("GLIBC_TUNABLES: this machine's glibc knows no {}", name),
          "ld.so --list-tunables names them");
    }
    static constexpr std::pair<const char*, const char*> kBoth[] = {
        {"MALLOC_ARENA_MAX", "glibc.malloc.arena_max"},
        {"MALLOC_TRIM_THRESHOLD_", "glibc.malloc.trim_threshold"},
        {"MALLOC_MMAP_THRESHOLD_", "glibc.malloc.mmap_threshold"},
        {"MALLOC_TOP_PAD_", "glibc.malloc.top_pad"},
    };
    for (const auto& [variable, tunable] : kBoth) {
      const auto value = value_of(environment_, variable);
      if (!value || tunables.find(std::string(tunable) + "=") == std::string::npos) continue;
      all_well = false;
      say(Kind::warn, "tunables", fmt::format("{}={} and {} are both set; the tunable holds", variable, *value, tunable),
          fmt::format("leave {} out", variable));
    }
    for (const std::string& each : set) {
      const std::string name = each.substr(0, each.find('='));
      static constexpr const char* kUnderscored[] = {"MALLOC_TRIM_THRESHOLD", "MALLOC_MMAP_THRESHOLD", "MALLOC_TOP_PAD",
                                                     "MALLOC_MMAP_MAX",       "MALLOC_PERTURB",        "MALLOC_CHECK"};
      if (std::find(std::begin(kUnderscored), std::end(kUnderscored), name) == std::end(kUnderscored)) continue;
      all_well = false;
      say(Kind::warn, "tunables", name + " has no effect: glibc's name for it ends in an underscore",
          fmt::format("write {}_", name));
    }
    for (const std::string& each : set) {
      const std::string name = each.substr(0, each.find('=')), value = each.substr(name.size() + 1);
      if (name == "GLIBC_TUNABLES" || name == "MALLOC_CHECK_" || name == "MALLOC_PERTURB_" || is_number_for(name, value))
        continue;
      all_well = false;
      say(Kind::warn, "tunables", each + ": glibc takes no such value and ignores it",
          name == "MALLOC_ARENA_MAX" ? "give a number from 1 on" : "give a number of bytes, without a unit");
    }
    if (all_well) say(Kind::ok, "tunables", joined(set) + " holds");
  }

  // Where a trace would be put. `folder`: for relative names.
  void output(const std::string& folder) {
    std::string out = value_of(environment_, "HEAPSPY_OUT").value_or("");
    if (out.empty() || out[0] != '/') out = folder + "/" + out;
    out.resize(out.rfind('/') + 1);
    if (out.find('%') != std::string::npos) return;
    if (::access(out.c_str(), W_OK | X_OK) == 0)
      say(Kind::ok, "output", fmt::format("traces go to {}", out));
    else
      say(Kind::why, "output", fmt::format("{} cannot be written to: {}", out, std::strerror(errno)),
          "set HEAPSPY_OUT (heapspy record --out) to a folder that can");
  }

  // Libraries that LD_PRELOAD names before the recorder.
  void others_before(const std::vector<std::string>& preloads) {
    for (const std::string& each : preloads) {
      if (is_recorder(each)) break;
      if (!read_elf_facts(each).defines_malloc) continue;
      say(Kind::warn, "first",
          fmt::format("{} is preloaded before the recorder and defines malloc: what it answers itself is not "
                      "recorded",
                      each),
          "name libheapspy.so first in LD_PRELOAD");
      return;
    }
    if (!preloads.empty()) say(Kind::ok, "first", "nothing that defines malloc is preloaded before it");
  }

  const std::vector<std::string>& environment() const { return environment_; }
  const DoctorPlan& plan() const { return plan_; }
  Diagnosis diagnosis;

 private:
  static std::string joined(const std::vector<std::string>& list) {
    std::string text;
    for (const std::string& each : list) text += (text.empty() ? "" : " ") + each;
    return text;
  }

  std::vector<std::string> environment_;
  const DoctorPlan& plan_;
};

// glibc's start cuts GLIBC_TUNABLES into its parts, in the memory that /proc/PID/environ shows.
std::vector<std::string> environment_of(const LiveProcess& target) {
  std::vector<std::string> list;
  for (std::string& each : split(target.try_text("environ").value_or(""), std::string_view("\0", 1)))
    if (each.starts_with("glibc.") && !list.empty() && list.back().starts_with("GLIBC_TUNABLES="))
      list.back() += ":" + each;
    else
      list.push_back(std::move(each));
  return list;
}

// * and ? as the recorder understands them; classes are rare enough to be left to fnmatch's own rules.
bool glob_matches(const std::string& pattern, const std::string& text) {
  std::size_t p = 0, t = 0, star = std::string::npos, from = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      from = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      p++, t++;
    } else if (star != std::string::npos) {
      p = star;
      t = ++from;
    } else {
      return pattern.find('[') != std::string::npos;  // not judged here
    }
  }
  while (p < pattern.size() && pattern[p] == '*') p++;
  return p == pattern.size();
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The allocator by the libraries that are mapped.
std::string allocator_of(const MappingList& maps, const ElfFacts& program) {
  if (program.defines_malloc) return "its own";
  for (const Mapping& each : maps.mappings)
    for (const char* name : {"libjemalloc", "libtcmalloc", "libmimalloc"})
      if (base_name(each.name).starts_with(name)) return base_name(each.name);
  return "glibc";
}

// The first page of the trace that the process maps.
struct MappedTrace {
  std::string path;
  format::FileHeader header{};
};
std::optional<MappedTrace> trace_of(const LiveProcess& target, const MappingList& maps) {
  const auto own_pid = target.status().namespace_pid;
  for (const Mapping& each : maps.mappings) {
    if (!each.shared || each.inode == 0 || each.file_offset != 0 || !each.write || !each.name.starts_with('/')) continue;
    for (const std::string& path : {each.name, fmt::format("/proc/{}/root{}", target.pid(), each.name),
                                    fmt::format("/proc/{}/map_files/{:x}-{:x}", target.pid(), each.start, each.end)}) {
      const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
      if (fd < 0) continue;
      MappedTrace found{each.name, {}};
      const bool whole = ::pread(fd, &found.header, sizeof found.header, 0) == static_cast<ssize_t>(sizeof found.header);
      ::close(fd);
      if (whole && std::memcmp(found.header.magic, format::kMagic, sizeof found.header.magic) == 0 &&
          (found.header.pid == static_cast<std::uint32_t>(target.pid()) || found.header.pid == own_pid))
        return found;
    }
  }
  return std::nullopt;
}

const char* mode_word(format::Mode mode) {
  switch (mode) {
    case format::Mode::full: return "full";
    case format::Mode::ring: return "ring";
    case format::Mode::sample: return "sample";
    case format::Mode::count: return "count";
  }
  return "unknown";
}

const char* stop_words(std::uint32_t stop) {
  switch (static_cast<format::Stop>(stop)) {
    case format::Stop::no_space: return "the disk is full";
    case format::Stop::file_limit: return "the limit of a file's size (ulimit -f) is reached";
    case format::Stop::unreachable: return "the trace cannot be reached by its path any more";
    case format::Stop::no_descriptor: return "the process has no descriptor left";
    case format::Stop::max_size: return "HEAPSPY_MAX is reached";
    case format::Stop::sandbox: return "the program entered a sandbox (seccomp), where the recorder makes no system call";
    default: return "the trace could not be written";
  }
}

// AT_SECURE in /proc/PID/auxv; nullopt where that may not be read.
std::optional<bool> secure_mode(const LiveProcess& target) {
  const std::string vector = target.try_text("auxv").value_or("");
  for (std::size_t at = 0; at + 16 <= vector.size(); at += 16) {
    std::uint64_t entry[2];
    std::memcpy(entry, vector.data() + at, sizeof entry);
    if (entry[0] == 23 /* AT_SECURE */) return entry[1] != 0;
  }
  return std::nullopt;
}

void say_program(Examination& exam, const ProgramFile& program, const std::string& name) {
  static constexpr std::pair<ProgramKind, const char*> kFixes[] = {
      {ProgramKind::static_linked, "link it dynamically; heapspy inspect reads the heap of any process"},
      {ProgramKind::other_bits, "build it for 64 bits"},
      {ProgramKind::other_libc, "build it against glibc"},
      {ProgramKind::set_id, "run a copy of it without those rights, or as the user that it becomes"},
      {ProgramKind::not_found, "give its path"},
      {ProgramKind::not_executable, "chmod +x it, or give the program that runs it"},
  };
  std::string fix;
  for (const auto& [kind, words] : kFixes)
    if (kind == program.kind) fix = words;
  exam.say(Kind::why, "program", fmt::format("{} {}", name, why_not_recorded(program.kind)), fix);
}

void say_own_malloc(Examination& exam, const std::string& path) {
  if (const std::string why = why_not_seen(path); !why.empty())
    exam.say(Kind::why, "allocator", fmt::format("{} {}", path, why), "build it without, for a recording");
}

}  // namespace

std::string why_not_seen(const std::string& path) {
  const ElfFacts facts = read_elf_facts(path);
  if (facts.has_asan)
    return "is built with AddressSanitizer, whose allocator answers malloc and tolerates no library before it";
  if (facts.defines_malloc) return "defines malloc itself, so its calls never reach a preloaded library";
  return "";
}

Diagnosis examine_process(const LiveProcess& target, const DoctorPlan& plan) {
  target.expect_memory();
  Examination exam(environment_of(target), plan);
  const MappingList maps = parse_mappings(target.text("maps"));
  const auto trace = trace_of(target, maps);
  const auto library = std::find_if(maps.mappings.begin(), maps.mappings.end(),
                                    [](const Mapping& each) { return is_recorder(each.name.substr(0, each.name.find(" ("))); });
  const bool loaded = library != maps.mappings.end();
  const std::string exe = fmt::format("/proc/{}/exe", target.pid());
  const ElfFacts elf = read_elf_facts(exe);
  const std::string allocator = allocator_of(maps, elf);
  const std::string preload = value_of(exam.environment(), "LD_PRELOAD").value_or("");
  const std::vector<std::string> preloads = split(preload, ": ");
  const bool wanted = std::any_of(preloads.begin(), preloads.end(), [](const std::string& each) { return is_recorder(each); });
  const bool secure = secure_mode(target).value_or(false);
  exam.diagnosis.recorded = trace.has_value();

  if (loaded) exam.say(Kind::ok, "loaded", library->name + " is loaded");
  if (loaded && wanted) exam.others_before(preloads);
  if (trace) {
    const format::FileHeader& header = trace->header;
    exam.say(Kind::ok, "recording", fmt::format("recording into {} (mode {})", trace->path, mode_word(header.mode)));
    if (header.stop)
      exam.say(Kind::warn, "recording", fmt::format("events are being lost since {}", stop_words(header.stop)),
               header.stop == static_cast<std::uint32_t>(format::Stop::max_size) ? "raise HEAPSPY_MAX, or use HEAPSPY_MODE=ring"
                                                                                 : "start it anew with HEAPSPY_OUT elsewhere");
    exam.unknown_settings();
  } else {
    const ProgramFile program = examine_program(exe);
    if (program.kind != ProgramKind::dynamic && program.kind != ProgramKind::unknown)
      say_program(exam, program, target.link("exe"));
    else if (secure)
      exam.say(Kind::why, "program",
               "the kernel started it in secure mode (setuid, setgid or capabilities): LD_PRELOAD is ignored",
               "run a copy of it without those rights, or as the user that it becomes");
    else if (!loaded && !wanted)
      exam.say(Kind::why, "loaded", "LD_PRELOAD in its environment does not name libheapspy.so",
               "start it with heapspy record, or with LD_PRELOAD=" + (plan.library.empty() ? kLibrary : plan.library));
    else if (!loaded)
      exam.say(Kind::why, "loaded", fmt::format("LD_PRELOAD={} names libheapspy.so, but the loader did not take it", preload),
               "give its absolute path; its stderr says more (ERROR: ld.so)");
    exam.settings();
    exam.only(base_name(target.link("exe")), glob_matches);
    if (loaded) exam.output(fmt::format("/proc/{}/cwd", target.pid()));
    if (exam.diagnosis.observations.empty() ||
        std::none_of(exam.diagnosis.observations.begin(), exam.diagnosis.observations.end(),
                     [](const Observation& each) { return each.kind == Kind::why; }))
      exam.say(Kind::why, "recording", "the library is loaded and does not record; why stood on its stderr when it began",
               "start it again with HEAPSPY_LOG=info");
    exam.diagnosis.recorded = false;
  }
  if (elf.has_asan || elf.defines_malloc)
    exam.say(trace ? Kind::warn : Kind::why, "allocator", fmt::format("{} {}", target.link("exe"), why_not_seen(exe)),
             "build it without, for a recording");
  else
    exam.say(Kind::ok, "allocator", fmt::format("{} answers malloc", allocator));
  exam.tunables(allocator == "glibc", secure);
  return std::move(exam.diagnosis);
}

Diagnosis examine_command(const std::string& command, const std::vector<std::string>& environment, const DoctorPlan& plan) {
  Examination exam(environment, plan);
  exam.diagnosis.recorded = true;
  const ProgramFile program = examine_program(command);
  const bool script = !program.interpreter.empty() && program.interpreter.find("ld-") == std::string::npos;
  if (program.kind != ProgramKind::dynamic) {
    say_program(exam, program, script ? program.interpreter : program.path);
    return std::move(exam.diagnosis);
  }
  exam.say(Kind::ok, "program", fmt::format("{} is a dynamic program of glibc", program.runs));
  if (plan.library.empty())
    exam.say(Kind::why, "loaded", "libheapspy.so is not beside heapspy", "build or install both");
  else if (const std::string refusal = plan.try_loading ? plan.try_loading(program.interpreter) : ""; !refusal.empty())
    exam.say(Kind::why, "loaded", refusal, "use a libheapspy.so that was built for this C library");
  else
    exam.say(Kind::ok, "loaded", fmt::format("{} takes {}", program.interpreter, plan.library));
  const std::vector<std::string> preloads = split(value_of(environment, "LD_PRELOAD").value_or(""), ": ");
  if (std::any_of(preloads.begin(), preloads.end(), [](const std::string& each) { return is_recorder(each); }))
    exam.others_before(preloads);
  say_own_malloc(exam, program.runs);
  exam.settings();
  exam.only(base_name(program.runs), glob_matches);
  char* here = ::get_current_dir_name();
  exam.output(here != nullptr ? here : "");
  std::free(here);
  const bool other = std::any_of(preloads.begin(), preloads.end(), [](const std::string& each) {
    return !is_recorder(each) && read_elf_facts(each).defines_malloc;
  });
  exam.tunables(!other && !read_elf_facts(program.runs).defines_malloc, false);
  return std::move(exam.diagnosis);
}

}  // namespace heapspy::process
