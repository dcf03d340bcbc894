// More GC threads than CPUs may run: they wait for each other, and each has its queue, stack and arena.
#include <fmt/core.h>

#include "analyzer/findings/quantity.h"
#include "analyzer/findings/verdicts.h"

namespace heapspy::findings {

std::optional<Finding> collector_threads(const Facts& facts) {
  if (!facts.java || !facts.java->cpus || *facts.java->cpus == 0) return std::nullopt;
  const std::uint64_t threads = facts.java->collector_threads, cpus = *facts.java->cpus;
  // ZGC and Shenandoah have a quarter for work beside the program, and generations twice.
  if (threads <= 2 * cpus + 1) return std::nullopt;

  Finding finding;
  finding.kind = "collector_threads";
  finding.title = "GC threads";
  finding.severity = severity_of(facts, facts.java->collector_live_bytes);
  finding.bytes = facts.java->collector_live_bytes;
  finding.whole_run = true;
  finding.text = fmt::format(
      "{} GC threads on {}{}: they wait for each other, and each has queues (which the thread that started the JVM has "
      "asked for: they are not in this figure), a stack and a part in an arena.",
      count_text(threads), plural_text(cpus, "CPU", "CPUs"),
      facts.java->cpu_quota ? fmt::format(" (its cgroup grants the time of {:g})", *facts.java->cpu_quota) : "");
  if (facts.java->collector_threads_setting)
    finding.text += fmt::format(" It was started with {}.", *facts.java->collector_threads_setting);
  finding.to_try = fmt::format(
      "-XX:ParallelGCThreads={}, or leave it away: the JVM then counts CPUs itself (in a container since JDK 8u191)", cpus);
  finding.evidence = {{"collector_threads", threads}, {"cpus", cpus}, {"collector_live_bytes", finding.bytes}};
  if (facts.java->cpu_quota) finding.evidence.emplace_back("cpu_quota", *facts.java->cpu_quota);
  return finding;
}

}  // namespace heapspy::findings
