#include "analyzer/report/inspection_java.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/findings/quantity.h"
#include "analyzer/process/java_attach.h"
#include "analyzer/report/inspection_ledger.h"
#include "analyzer/report/printable.h"
#include "analyzer/report/table.h"

namespace heapspy::report {
namespace {

using findings::bytes_text;

constexpr std::chrono::milliseconds kPatience{5000};
constexpr std::size_t kTagsShown = 12;
constexpr std::size_t kPartsSaid = 5;  // in a sentence; and none that is less than a hundredth
// Parts of the ledger that the JVM has made, all of which it counts.
constexpr const char* kCounted[] = {"Java heap", "metaspace and code", "GC structures", "thread stacks"};
constexpr const char* kOthersBlocks = "malloc'ed by others than the JVM, rounding and headers";

bool is_counted(const std::string& name) {
  return std::any_of(std::begin(kCounted), std::end(kCounted), [&](const char* each) { return name == each; });
}

std::uint64_t size_of(std::int64_t bytes) { return static_cast<std::uint64_t>(bytes < 0 ? -bytes : bytes); }

}  // namespace

std::optional<BeyondNativeMemory> beyond_native_memory(const Inspection& inspection) {
  if (!inspection.jvm || !inspection.jvm->native_memory || !inspection.rss.total_bytes) return std::nullopt;
  const Bytes in_use = inspection.sum(&InspectedArena::in_use_bytes);
  if (!in_use) return std::nullopt;
  const process::NativeMemory& memory = *inspection.jvm->native_memory;
  BeyondNativeMemory beyond;
  for (const PartReport& part : inspection.rss.parts)
    if (!is_counted(part.name) && part.name != kInUsePart && part.bytes) beyond.parts.push_back({part.name, part.bytes});
  if (const std::uint64_t counted = memory.malloc_bytes(); *in_use > counted)
    beyond.parts.push_back({kOthersBlocks, *in_use - counted});
  std::stable_sort(beyond.parts.begin(), beyond.parts.end(),
                   [](const PartReport& a, const PartReport& b) { return a.bytes > b.bytes; });
  for (const PartReport& part : beyond.parts) beyond.bytes += part.bytes;
  beyond.difference =
      static_cast<std::int64_t>(*inspection.rss.total_bytes) - static_cast<std::int64_t>(memory.committed_bytes);
  beyond.not_resident = static_cast<std::int64_t>(beyond.bytes) - beyond.difference;
  return beyond;
}

void ask_jvm(Inspection& inspection, const process::LiveProcess& target) {
  const auto& parts = inspection.rss.parts;
  if (std::none_of(parts.begin(), parts.end(), [](const PartReport& part) { return part.name == kCounted[0]; })) return;
  InspectedJvm& jvm = inspection.jvm.emplace();
  if (!process::tracks_native_memory(target)) {
    jvm.why_not = "it was not started with -XX:NativeMemoryTracking=summary";
    return;
  }
  if (!process::listens_to_attach(target)) {
    jvm.why_not = "it does not listen to jcmd";
    return;
  }
  try {
    jvm.native_memory = process::native_memory(target, kPatience);
    if (!jvm.native_memory) jvm.why_not = "its answer to VM.native_memory is no summary";
  } catch (const process::TargetError& error) {
    jvm.why_not = error.what();
  }
}

std::string beyond_text(const Inspection& inspection) {
  const auto beyond = beyond_native_memory(inspection);
  if (!beyond) return "";
  std::string text = fmt::format("RSS {}, NMT {}: ", bytes_text(*inspection.rss.total_bytes),
                                 bytes_text(inspection.jvm->native_memory->committed_bytes));
  text += beyond->difference >= 0 ? fmt::format("the {} between are ", bytes_text(size_of(beyond->difference)))
                                  : std::string("beside what NMT counts RSS holds ");
  std::uint64_t said = 0;
  for (std::size_t i = 0; i < beyond->parts.size() && i < kPartsSaid && beyond->parts[i].bytes >= beyond->bytes / 100; i++) {
    text += fmt::format("{}{} {}", i ? ", " : "", bytes_text(beyond->parts[i].bytes), beyond->parts[i].name);
    said += beyond->parts[i].bytes;
  }
  if (said < beyond->bytes) text += fmt::format(", {} more", bytes_text(beyond->bytes - said));
  if (beyond->not_resident > 0)
    text += fmt::format("; {} that NMT counts as committed are not in RAM", bytes_text(size_of(beyond->not_resident)));
  if (beyond->not_resident < 0)
    text += fmt::format("; and {} more than NMT counts in what it does count", bytes_text(size_of(beyond->not_resident)));
  return text + ".";
}

Lines jvm_lines(const Inspection& inspection, const Screen& screen) {
  if (!inspection.jvm) return {};
  if (!inspection.jvm->native_memory)
    return wrap(fmt::format("The JVM's own books (NMT) are not known: {}.", printable(inspection.jvm->why_not.value_or("?"))),
                kWidth);
  const process::NativeMemory& memory = *inspection.jvm->native_memory;
  std::vector<process::NativeMemoryTag> tags = memory.tags;
  std::stable_sort(tags.begin(), tags.end(),
                   [](const auto& a, const auto& b) { return a.committed_bytes > b.committed_bytes; });
  Table table({"The JVM's own books (NMT)", "committed", "of it malloc", "reserved"});
  const auto row = [&](const std::string& name, std::uint64_t committed, std::uint64_t malloc, std::uint64_t reserved) {
    table.add({name, bytes_text(committed), bytes_text(malloc), bytes_text(reserved)});
  };
  row("  total", memory.committed_bytes, memory.malloc_bytes(), memory.reserved_bytes);
  process::NativeMemoryTag rest;
  for (std::size_t i = 0; i < tags.size(); i++) {
    const process::NativeMemoryTag& tag = tags[i];
    if (i < kTagsShown) {
      row("    " + printable(tag.name), tag.committed_bytes, tag.malloc_bytes + tag.arena_bytes, tag.reserved_bytes);
      continue;
    }
    rest.committed_bytes += tag.committed_bytes;
    rest.malloc_bytes += tag.malloc_bytes + tag.arena_bytes;
    rest.reserved_bytes += tag.reserved_bytes;
  }
  if (tags.size() > kTagsShown)
    row(fmt::format("    and {} more", tags.size() - kTagsShown), rest.committed_bytes, rest.malloc_bytes, rest.reserved_bytes);
  Lines lines = table.lines(kWidth);
  lines[0] = heading(lines[0], screen);
  return lines;
}

Json jvm_json(const Inspection& inspection) {
  if (!inspection.jvm) return nullptr;
  Json json = {{"native_memory", nullptr}, {"native_memory_why", maybe(inspection.jvm->why_not)}, {"beyond", nullptr}};
  if (const auto& memory = inspection.jvm->native_memory)
    json["native_memory"] = {{"reserved_bytes", memory->reserved_bytes},
                             {"committed_bytes", memory->committed_bytes},
                             {"malloc_bytes", memory->malloc_bytes()},
                             {"tags", list_json(memory->tags, [](const process::NativeMemoryTag& tag) -> Json {
                                return {{"name", tag.name},
                                        {"reserved_bytes", tag.reserved_bytes},
                                        {"committed_bytes", tag.committed_bytes},
                                        {"malloc_bytes", tag.malloc_bytes},
                                        {"arena_bytes", tag.arena_bytes}};
                              })}};
  if (const auto beyond = beyond_native_memory(inspection))
    json["beyond"] = {{"bytes", beyond->bytes},
                      {"rss_less_native_memory_bytes", beyond->difference},
                      {"not_resident_bytes", beyond->not_resident},
                      {"parts", list_json(beyond->parts, [](const PartReport& part) -> Json {
                         return {{"name", part.name}, {"bytes", part.bytes}};
                       })}};
  return json;
}

}  // namespace heapspy::report
