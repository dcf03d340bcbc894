// Direct buffers: malloc'ed blocks that small objects of the Java heap own. They leave when a collection finds these, and a
// program that seldom needs one for its heap's sake may wait long.
#include <fmt/core.h>

#include "analyzer/findings/java_use.h"
#include "analyzer/findings/quantity.h"
#include "analyzer/findings/verdicts.h"

namespace heapspy::findings {
namespace {

constexpr double kShare = 0.1;  // of RSS; below, it is what networking and files take anywhere

}  // namespace

std::optional<Finding> direct_buffers(const Facts& facts) {
  if (!facts.java) return std::nullopt;
  const JavaUseFacts& direct = facts.java->direct_buffers;
  if (!worth(facts, direct.live_bytes)) return std::nullopt;
  if (facts.rss_bytes && static_cast<double>(direct.live_bytes) < kShare * static_cast<double>(*facts.rss_bytes))
    return std::nullopt;

  Finding finding;
  finding.kind = "direct_buffers";
  finding.title = "Direct buffers";
  finding.bytes = resident_bytes(facts, direct.live_bytes);
  finding.severity = severity_of(facts, finding.bytes);
  finding.text = fmt::format(
      "{} of ByteBuffer.allocateDirect's: memory outside of the Java heap, each block owned by a small object in it and given "
      "back "
      "only when a collection finds that object unreachable.{}",
      blocks_text(direct), places_text(direct));
  finding.text += ended_text(facts, direct);
  finding.text +=
      facts.java->max_direct_setting
          ? fmt::format(" Their limit is {}.", *facts.java->max_direct_setting)
          : std::string(" Their limit is not set, so it is that of the Java heap (-Xmx): the two together may be twice it.");
  finding.to_try =
      facts.java->max_direct_setting
          ? std::string(
                "a lower -XX:MaxDirectMemorySize: at the limit the JVM collects garbage first and fails only then; or keep "
                "and use buffers again instead of making new ones")
          : std::string(
                "-XX:MaxDirectMemorySize=SIZE: at the limit the JVM collects garbage first, and throws an OutOfMemoryError "
                "where that "
                "is not enough; or keep and use buffers again instead of making new ones");
  finding.evidence = evidence_of(direct);
  return finding;
}

}  // namespace heapspy::findings
