// A native library that Java code calls, whose blocks are left over evenly from all parts of the run: neither the Java heap nor
// the JVM knows of them.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "analyzer/findings/leaked_sites.h"
#include "analyzer/findings/quantity.h"
#include "analyzer/findings/verdicts.h"

namespace heapspy::findings {
namespace {

constexpr std::size_t kSitesShown = 3;

// `leak` counts what grows after the first quarter of the run: a part of it is no more than what is left of all eighths after
// that.
std::uint64_t growth_of(const SiteFacts& site) {
  std::uint64_t bytes = 0;
  if (leaked_evenly(site))
    for (std::size_t i = 3; i < site.survivors.size(); i++) bytes += site.survivors[i];
  return bytes;
}

}  // namespace

std::optional<Finding> jni_leak(const Facts& facts) {
  if (!facts.java) return std::nullopt;
  std::map<std::string, std::uint64_t> libraries;
  for (const SiteFacts& site : facts.sites)
    if (!site.jni_library.empty()) libraries[site.jni_library] += growth_of(site);
  const auto most =
      std::max_element(libraries.begin(), libraries.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == libraries.end() || !worth(facts, most->second)) return std::nullopt;

  Finding finding;
  finding.kind = "jni_leak";
  finding.title = "Leak in a JNI library";
  finding.severity = severity_of(facts, most->second);
  finding.bytes = most->second;
  finding.whole_run = true;
  finding.part_of = {"leak"};
  finding.text = fmt::format(
      "Blocks that {} has allocated in all parts of the run are left over at its end, at least {}. Neither the Java heap nor "
      "the JVM's "
      "own "
      "books (NMT) know of them.",
      most->first, bytes_text(most->second));
  std::vector<const SiteFacts*> sites;
  for (const SiteFacts& site : facts.sites)
    if (site.jni_library == most->first && growth_of(site)) sites.push_back(&site);
  std::stable_sort(sites.begin(), sites.end(),
                   [](const SiteFacts* a, const SiteFacts* b) { return growth_of(*a) > growth_of(*b); });
  if (sites.size() > kSitesShown) sites.resize(kSitesShown);
  std::vector<std::string> places;
  for (const SiteFacts* site : sites) {
    finding.text += fmt::format("{} {} ({} in {} never freed)", places.empty() ? " Allocated at" : ",",
                                site->java_caller.empty() ? site->where : site->where + ", called by " + site->java_caller,
                                bytes_text(site->end_live_bytes), plural_text(site->end_live_blocks, "block", "blocks"));
    places.push_back(site->where);
  }
  finding.text += ". No setting of the JVM or of malloc helps.";
  finding.evidence = {{"growth_bytes", most->second}, {"library", most->first}, {"sites", places}};
  return finding;
}

}  // namespace heapspy::findings
