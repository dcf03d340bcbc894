// What HotSpot's compilers hold while they compile: arenas of malloc'ed chunks, some methods need hundreds of MiB, and all of
// it is free again after each.
#include <fmt/core.h>

#include "analyzer/findings/java_use.h"
#include "analyzer/findings/quantity.h"
#include "analyzer/findings/verdicts.h"

namespace heapspy::findings {
namespace {

constexpr double kShare = 0.05;  // of RSS; below, it is what any JVM's start takes
constexpr std::uint64_t kLeast = 16ull << 20;

}  // namespace

std::optional<Finding> compiler_arenas(const Facts& facts) {
  if (!facts.java || !facts.rss_bytes) return std::nullopt;
  const std::uint64_t bytes = facts.java->compiler_live_bytes;
  if (bytes < kLeast || static_cast<double>(bytes) < kShare * static_cast<double>(*facts.rss_bytes)) return std::nullopt;

  Finding finding;
  finding.kind = "compiler_arenas";
  finding.title = "JIT compiler";
  finding.severity = severity_of(facts, bytes);
  finding.bytes = resident_bytes(facts, bytes);
  finding.text = fmt::format(
      "{} of the JVM hold it to compile methods, and give it back to malloc when each is done: it is there at the start and at "
      "times of new code, not for ever. -Xmx does not limit it.",
      plural_text(facts.java->compiler_threads, "compiler thread", "compiler threads"));
  if (facts.estimated) finding.text += " (Estimated from samples.)";
  finding.to_try =
      "which method needs so much: -XX:+CITime or jcmd PID Compiler.memory (JDK 22 and later); fewer compilers at once with "
      "-XX:CICompilerCount=2, or only the small one with -XX:TieredStopAtLevel=1, at the price of slower code; what malloc "
      "keeps "
      "after it: -XX:TrimNativeHeapInterval=5000 (JDK 17.0.9, 21.0.1, 22 and later)";
  finding.evidence = {{"compiler_live_bytes", bytes}, {"compiler_threads", facts.java->compiler_threads}};
  return finding;
}

}  // namespace heapspy::findings
