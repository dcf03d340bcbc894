// zlib's memory of java.util.zip's Inflaters and Deflaters: tens to hundreds of KiB each, outside of the Java heap, held until
// somebody calls end() or a collection finds that nobody will.
#include <fmt/core.h>

#include "analyzer/findings/java_use.h"
#include "analyzer/findings/quantity.h"
#include "analyzer/findings/verdicts.h"

namespace heapspy::findings {

std::optional<Finding> zip_streams(const Facts& facts) {
  if (!facts.java) return std::nullopt;
  const JavaUseFacts& zip = facts.java->zip_streams;
  if (!worth(facts, zip.live_bytes)) return std::nullopt;

  Finding finding;
  finding.kind = "zip_streams";
  finding.title = "Inflaters and deflaters";
  finding.bytes = resident_bytes(facts, zip.live_bytes);
  finding.severity = severity_of(facts, finding.bytes);
  finding.text = fmt::format(
      "{} of zlib's, of streams that java.util.zip has opened and nobody has ended yet: memory outside of the Java heap, which "
      "-Xmx does not limit.{}",
      blocks_text(zip), places_text(zip));
  finding.text += ended_text(facts, zip);
  finding.to_try =
      "call end() of Inflater and Deflater, or close() of the stream or jar, where the work is done (try-with-resources), or "
      "have "
      "fewer of them open at once; what malloc then keeps free: MALLOC_ARENA_MAX=2, set before start, or "
      "-XX:TrimNativeHeapInterval=5000 (JDK 17.0.9, 21.0.1, 22 and later)";
  finding.evidence = evidence_of(zip);
  return finding;
}

}  // namespace heapspy::findings
