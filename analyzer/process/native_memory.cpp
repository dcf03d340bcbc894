#include "analyzer/process/native_memory.h"

#include <algorithm>
#include <charconv>

#include "analyzer/process/java_attach.h"

namespace heapspy::process {
namespace {

constexpr std::string_view kOption = "-XX:NativeMemoryTracking=";

bool switches_it_on(std::string_view options) {
  const std::size_t at = options.rfind(kOption);
  if (at == std::string_view::npos) return false;
  const std::string_view value = options.substr(at + kOption.size());
  return value.starts_with("summary") || value.starts_with("detail");
}

// The number of KiB after `word` within a line, in bytes.
std::optional<std::uint64_t> bytes_after(std::string_view line, std::string_view word) {
  const std::size_t at = line.find(word);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = line.substr(at + word.size());
  std::uint64_t kib = 0;
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), kib);
  if (parsed.ec != std::errc{} || !rest.substr(static_cast<std::size_t>(parsed.ptr - rest.data())).starts_with("KB") ||
      kib > UINT64_MAX / 1024)
    return std::nullopt;
  return kib * 1024;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::uint64_t NativeMemory::malloc_bytes() const {
  std::uint64_t bytes = 0;
  for (const NativeMemoryTag& tag : tags) bytes += tag.malloc_bytes + tag.arena_bytes;
  return bytes;
}

bool tracks_native_memory(const LiveProcess& process) {
  for (const std::string& word : process.command())
    if (switches_it_on(word)) return true;
  const std::string environment = process.try_text("environ").value_or("");
  for (std::size_t at = 0; at < environment.size();) {
    const std::size_t end = std::min(environment.find('\0', at), environment.size());
    const std::string_view each = std::string_view(environment).substr(at, end - at);
    at = end + 1;
    for (const std::string_view name : {"JAVA_TOOL_OPTIONS=", "JDK_JAVA_OPTIONS=", "_JAVA_OPTIONS="})
      if (each.starts_with(name) && switches_it_on(each)) return true;
  }
  return false;
}

std::optional<NativeMemory> native_memory(const LiveProcess& process, std::chrono::milliseconds patience) {
  const JavaAnswer answer = java_command(process, "VM.native_memory summary scale=KB", patience);
  return answer.done ? parse_native_memory(answer.text) : std::nullopt;
}

// Total: reserved=2013831KB, committed=266383KB
// -                     Class (reserved=1048652KB, committed=204KB)
//                             (malloc=76KB #578) …
//                             (arena=22KB #38) …
std::optional<NativeMemory> parse_native_memory(std::string_view text) {
  NativeMemory memory;
  bool total = false;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const auto reserved = bytes_after(line, "reserved="), committed = bytes_after(line, "committed=");
    if (line.starts_with("Total:") && reserved && committed) {
      memory.reserved_bytes = *reserved;
      memory.committed_bytes = *committed;
      total = true;
    } else if (line.starts_with("-") && reserved && committed) {
      const std::string_view name = trimmed(line.substr(1, line.find('(') - 1));
      memory.tags.push_back({std::string(name), *reserved, *committed, 0, 0});
    } else if (!memory.tags.empty()) {
      const std::string_view piece = trimmed(line);
      if (piece.starts_with("(malloc=")) memory.tags.back().malloc_bytes = bytes_after(piece, "(malloc=").value_or(0);
      // Of its own headers, which are in malloc's blocks too.
      if (piece.starts_with("(tracking overhead="))
        memory.tags.back().malloc_bytes += bytes_after(piece, "(tracking overhead=").value_or(0);
      if (piece.starts_with("(arena=")) memory.tags.back().arena_bytes = bytes_after(piece, "(arena=").value_or(0);
    }
  }
  return total && !memory.tags.empty() ? std::optional(std::move(memory)) : std::nullopt;
}

}  // namespace heapspy::process
