#include "analyzer/report/java_facts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "analyzer/report/java_build.h"
#include "analyzer/report/rounded.h"
#include "analyzer/report/site_book.h"
#include "analyzer/report/site_frames.h"

namespace heapspy::report {
namespace {

using model::Figures;
using model::Moment;
using model::SiteHold;
using trace::Reader;
using trace::StackFrame;

constexpr std::size_t kPlaces = 3;

// What the methods of a stack tell about its blocks. They are listed innermost first.
enum class Use { other, zip_streams, direct_buffers };

Use use_of(const std::vector<std::string_view>& methods) {
  if (methods.empty()) return Use::other;
  if (methods[0].starts_with("java.util.zip.Inflater.") || methods[0].starts_with("java.util.zip.Deflater."))
    return Use::zip_streams;
  if (methods[0].find(".Unsafe.allocateMemory0(") == std::string_view::npos) return Use::other;
  const bool direct = std::any_of(methods.begin(), methods.end(), [](std::string_view method) {
    return method.starts_with("java.nio.DirectByteBuffer.<init>(");
  });
  return direct ? Use::direct_buffers : Use::other;
}

// The JVM itself, not a library of the JDK's classes.
bool is_of_jvm(std::string_view library) { return library.substr(library.rfind('/') + 1) == "libjvm.so"; }

bool is_of_jdk(std::string_view method) {
  constexpr std::string_view kBegin[] = {"java.", "javax.", "jdk.", "sun.", "com.sun."};
  return method.starts_with("[") ||
         std::any_of(std::begin(kBegin), std::end(kBegin), [&](std::string_view each) { return method.starts_with(each); });
}

std::vector<std::string_view> methods_of(const trace::Stack& stack, const Reader& reader) {
  std::vector<std::string_view> methods;
  for (const StackFrame& frame : stack.frames)
    if (frame.method != trace::kNoMethod) methods.push_back(reader.stacks().methods()[frame.method]);
  return methods;
}

// The program's own code that asked; where all is the JDK's, the outermost of that.
std::string place_of(const std::vector<std::string_view>& methods) {
  std::string_view outermost;
  for (const std::string_view method : methods) {
    if (!is_of_jdk(method)) return frame_text(java_frame(std::string(method)));
    if (!method.starts_with('[')) outermost = method;  // "[StubRoutines]" is no method
  }
  return outermost.empty() ? "" : frame_text(java_frame(std::string(outermost)));
}

class UseSums {
 public:
  void add(const model::SiteFigures& site, const SiteHold* hold, const std::string& place) {
    facts_.ended_blocks += site.ended_blocks;
    facts_.ended_by_others += site.ended_by_others;
    for (const model::SiteFigures::Ender& ender : site.enders) enders_[index(ender.thread)] += ender.blocks;
    if (!hold) return;
    const std::uint64_t bytes = rounded(hold->live_bytes);
    facts_.live_blocks += rounded(hold->live_blocks);
    facts_.live_bytes += bytes;
    places_[place] += bytes;
  }
  findings::JavaUseFacts facts(const Report& report) {
    for (const auto& [thread, blocks] : enders_) {
      const ThreadReport* known = thread_with_id(report, thread);
      if (!known || rounded(blocks) <= facts_.ended_by_it) continue;
      facts_.ended_by_it = rounded(blocks);
      facts_.ended_by = known->name;
    }
    for (const auto& [place, bytes] : places_)
      if (bytes && bytes >= facts_.live_bytes / 100 && !place.empty()) facts_.places.emplace_back(place, bytes);
    std::stable_sort(facts_.places.begin(), facts_.places.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    if (facts_.places.size() > kPlaces) facts_.places.resize(kPlaces);
    return std::move(facts_);
  }

 private:
  findings::JavaUseFacts facts_;
  std::map<std::string, std::uint64_t> places_;
  std::map<std::uint32_t, double> enders_;  // by thread
};

bool begins(const std::string& name, std::string_view begin) { return std::string_view(name).starts_with(begin); }

}  // namespace

std::string java_caller(const trace::Stack& stack, const Reader& reader) {
  std::vector<std::string_view> methods = methods_of(stack, reader);
  if (methods.size() > 1) methods.erase(methods.begin());  // the native one, which the library's function says already
  return place_of(methods);
}

void add_java_facts(findings::Facts& facts, const Report& report, const Figures& figures, const Moment& moment,
                    const Reader& reader) {
  if (!report.java) return;
  findings::JavaFacts& java = facts.java.emplace();
  std::unordered_map<std::uint32_t, const SiteHold*> holds;
  for (const SiteHold& hold : moment.heap.sites) holds[index(hold.site)] = &hold;
  UseSums zip, direct;
  for (const model::SiteFigures& site : figures.sites) {
    const auto found = holds.find(index(site.site));
    const SiteHold* hold = found == holds.end() ? nullptr : found->second;
    const auto by_compiler = [&](trace::ThreadId id) {
      const ThreadReport* thread = thread_with_id(report, index(id));
      return thread && thread->role == "compiler";
    };
    if (hold && !site.threads.empty() && std::all_of(site.threads.begin(), site.threads.end(), by_compiler))
      java.compiler_live_bytes += rounded(hold->live_bytes);
    const trace::Stack stack = reader.stacks().stack(site.site);
    const auto methods = methods_of(stack, reader);
    Use use = use_of(methods);
    // Beneath a method of theirs the JVM allocates for itself, too, as when it loads a class.
    if (const std::string library = use == Use::zip_streams ? calling_library(stack, reader) : ""; is_of_jvm(library))
      use = Use::other;
    if (use != Use::other) (use == Use::zip_streams ? zip : direct).add(site, hold, place_of(methods));
  }
  java.zip_streams = zip.facts(report);
  java.direct_buffers = direct.facts(report);
  for (const ThreadReport& thread : report.threads) {
    if (thread.role == "compiler") java.compiler_threads++;
    if (thread.role != "gc") continue;
    java.collector_live_bytes += thread.live_bytes.value_or(0);
    for (const char* worker : {"GC Thread#", "GC task thread#", "ZWorker", "Shenandoah GC"})
      if (begins(thread.name, worker)) java.collector_threads++;
  }
  java.cpus = report.process.cpus;
  // Rounded up, as HotSpot does.
  if (const auto quota = report.process.cpu_quota; quota && java.cpus && *quota < static_cast<double>(*java.cpus)) {
    java.cpus = static_cast<std::uint64_t>(std::ceil(*quota));
    java.cpu_quota = quota;
  }
  for (const std::string& word : report.process.command) {
    if (begins(word, "-XX:MaxDirectMemorySize=")) java.max_direct_setting = word;
    if (begins(word, "-XX:ParallelGCThreads=")) java.collector_threads_setting = word;
  }
}

}  // namespace heapspy::report
