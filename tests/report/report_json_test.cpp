// Every key of the schema heapspy.report/1 is there, whatever is known.
#include "analyzer/report/report_json.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/report/sample_report.h"

namespace heapspy::report {
namespace {

using Json = nlohmann::ordered_json;

// The schema, word for word: section 5 of the contract.
const std::vector<std::string> kTop = {"schema",    "trace",  "process", "totals",   "at",    "threads", "sizes",
                                       "lifetimes", "arenas", "rss",     "timeline", "sites", "findings"};
const std::vector<std::string> kTrace = {"path",        "format_version",   "mode",     "clock", "size_bytes", "events",
                                         "lost_events", "reordered_events", "complete", "damage"};
const std::vector<std::string> kProcess = {"pid",        "ppid",       "exe", "command",   "host",
                                           "start_time", "duration_s", "end", "allocator", "environment"};
const std::vector<std::string> kTotals = {"allocations",     "frees",      "reallocations", "failed",
                                          "bytes_allocated", "live_bytes", "live_blocks",   "peak_live_bytes",
                                          "peak_time_s",     "temporary",  "unknown_frees"};
const std::vector<std::string> kThread = {"id",
                                          "tid",
                                          "name",
                                          "start_s",
                                          "end_s",
                                          "allocations",
                                          "frees",
                                          "reallocations",
                                          "bytes_allocated",
                                          "live_bytes",
                                          "peak_live_bytes",
                                          "freed_by_others",
                                          "freed_for_others",
                                          "sizes"};
const std::vector<std::string> kArena = {
    "id",         "kind",        "address",        "heaps",           "threads",      "system_bytes", "in_use_bytes",
    "live_bytes", "live_blocks", "resident_bytes", "trimmable_bytes", "pinned_bytes", "cached_bytes", "fragmentation"};
const std::vector<std::string> kFinding = {"kind", "severity", "bytes", "text", "fix", "cost", "evidence"};

void expect_keys(const Json& json, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) EXPECT_TRUE(json.contains(key)) << key;
}

void expect_all_keys(const Json& json) {
  expect_keys(json, kTop);
  expect_keys(json["trace"], kTrace);
  expect_keys(json["process"], kProcess);
  expect_keys(json["process"]["allocator"], {"name", "version"});
  expect_keys(json["totals"], kTotals);
  expect_keys(json["at"], {"time_s", "why"});
  expect_keys(json["rss"], {"total_bytes", "parts"});
  for (const char* list : {"threads", "sizes", "lifetimes", "arenas", "timeline", "sites", "findings"})
    EXPECT_TRUE(json[list].is_array());
}

TEST(ReportJson, HasEveryKeyOfTheSchema) {
  const Json json = report_json(sample_report());
  EXPECT_EQ(json["schema"], "heapspy.report/1");
  expect_all_keys(json);
  expect_keys(json["threads"][0], kThread);
  expect_keys(json["threads"][0]["sizes"][0], {"from", "to", "allocations", "bytes"});
  expect_keys(json["sizes"][0], {"from", "to", "allocations", "bytes", "live_blocks", "live_bytes"});
  expect_keys(json["lifetimes"][0], {"from_s", "to_s", "blocks", "bytes"});
  expect_keys(json["arenas"][0], kArena);
  expect_keys(json["rss"]["parts"][0], {"name", "bytes"});
  expect_keys(json["timeline"][0], {"time_s", "live_bytes", "system_bytes", "rss_bytes", "pinned_bytes"});
  expect_keys(json["findings"][0], kFinding);
}

TEST(ReportJson, HasEveryKeyWhenNothingIsKnown) {
  Report report;
  report.threads.emplace_back();
  report.arenas.emplace_back();
  report.findings.emplace_back();
  const Json json = report_json(report);
  expect_all_keys(json);
  expect_keys(json["threads"][0], kThread);
  expect_keys(json["arenas"][0], kArena);
  expect_keys(json["findings"][0], kFinding);
  EXPECT_TRUE(json["process"]["duration_s"].is_null());
  EXPECT_TRUE(json["rss"]["total_bytes"].is_null());
  EXPECT_TRUE(json["arenas"][0]["resident_bytes"].is_null());
  EXPECT_TRUE(json["arenas"][0]["fragmentation"].is_null());
  EXPECT_TRUE(json["threads"][0]["end_s"].is_null());
  EXPECT_TRUE(json["findings"][0]["fix"].is_null());
  EXPECT_TRUE(json["findings"][0]["cost"].is_null());
}

TEST(ReportJson, KeepsTheOrderOfTheSchema) {
  const Json json = report_json(sample_report());
  std::vector<std::string> keys;
  for (const auto& item : json.items())
    if (std::find(kTop.begin(), kTop.end(), item.key()) != kTop.end()) keys.push_back(item.key());
  EXPECT_EQ(keys, kTop);
}

TEST(ReportJson, CarriesTheValues) {
  const Json json = report_json(sample_report());
  EXPECT_EQ(json["trace"]["events"], 2'431'118);
  EXPECT_EQ(json["process"]["command"], Json({"java", "-Xmx192m", "-jar", "zip_threads.jar"}));
  EXPECT_EQ(json["process"]["environment"]["LD_PRELOAD"], "libheapspy.so");
  EXPECT_EQ(json["totals"]["live_bytes"], 32'505'856);
  EXPECT_EQ(json["totals"]["calls"]["calloc"], 215'561);
  EXPECT_EQ(json["at"]["why"], "peak");
  EXPECT_EQ(json["threads"][1]["freed_by_others"], 1775);
  EXPECT_EQ(json["lifetimes"][3]["to_s"], nullptr);
  EXPECT_EQ(json["arenas"][1]["trimmable_bytes"], 36 << 20);
  EXPECT_EQ(json["arenas"][0]["plug"]["size"], 48);
  EXPECT_EQ(json["timeline"][0]["rss_bytes"], nullptr);
  EXPECT_EQ(json["timeline"][2]["rss_bytes"], 752 << 20);
  EXPECT_EQ(json["findings"][0]["severity"], "high");
  EXPECT_EQ(json["findings"][0]["evidence"]["arenas"], 16);
  EXPECT_EQ(json["findings"][1]["evidence"]["thread_names"], Json({"zip-storm-worker-#"}));
  EXPECT_EQ(json["findings"][1]["evidence"]["set"], false);
  EXPECT_EQ(json["end"]["rss"]["total_bytes"], 517 << 20);
}

TEST(ReportJson, WrittenSiteBySiteIsTheSameToTheByte) {
  Report report = sample_report();
  for (const std::size_t count : {0u, 1u, 3u}) {
    report.sites.assign(count, SiteReport());
    for (std::size_t i = 0; i < count; i++) {
      report.sites[i].frames.resize(i);
      if (i) report.sites[i].frames[0].function = "a\n  \"sites\": []";
    }
    const std::string whole = dump_json(report_json(report));
    Report without = report;
    without.sites.clear();
    std::string written;
    write_json(report_json(without), report.sites, [&](std::string_view part) { written += part; });
    EXPECT_EQ(written, whole) << count;
  }
}

TEST(ReportJson, HostileNamesStayValidJson) {
  Report report = sample_report();
  report.threads[0].name = "\xff<script>\"\\\n\x01" + std::string(65536, 'x');
  report.process.command = {"\xc0\xaf"};
  report.process.environment = {{"LD_PRELOAD", "\x80"}};
  const std::string text = dump_json(report_json(report));
  const Json back = Json::parse(text);
  EXPECT_EQ(back["threads"][0]["name"], "\uFFFD<script>\"\\\n\x01" + std::string(65536, 'x'));
  EXPECT_EQ(text.back(), '\n');
}

}  // namespace
}  // namespace heapspy::report
