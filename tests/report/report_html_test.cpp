#include "analyzer/report/report_html.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/report_json.h"
#include "tests/report/sample_report.h"

namespace heapspy::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

constexpr const char* kHostile = "<script>alert('1')</script>\x1b[31m&\"\x01<img src=x onerror=y>";

SiteReport site(std::uint64_t live, std::vector<const char*> functions) {
  SiteReport site;
  site.id = static_cast<std::uint32_t>(live);
  for (const char* each : functions) {
    FrameReport& frame = site.frames.emplace_back();
    frame.function = each;
    frame.file = "src/shop.cpp";
    frame.line = 20;
    frame.module = "/opt/shop";
  }
  site.stack_end = "whole";
  site.allocations = 12;
  site.bytes = live + 1000;
  site.live_bytes = live;
  site.live_blocks = 3;
  site.peak_bytes = live + 10;
  site.temporary = 6;
  site.pinned_bytes = live + 5;
  site.threads = {1};
  return site;
}

Report with_sites() {
  Report report = sample_report();
  report.sites = {site(3 << 20, {"fill", "serve", "main"}), site(1 << 20, {"log", "serve", "main"})};
  report.sites_left_out = 7;
  return report;
}

// Every "<" of a page begins a tag of ours; this are their names, and it checks that they nest.
std::set<std::string> tags_of(const std::string& page) {
  static const std::set<std::string> kEmpty = {"!DOCTYPE", "meta"};
  std::set<std::string> names;
  std::vector<std::string> open;
  for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
    const bool ends = page[at + 1] == '/';
    const std::size_t begin = at + 1 + ends, end = page.find_first_of(" >", begin);
    const std::string name = page.substr(begin, end - begin);
    names.insert(name);
    if (kEmpty.count(name)) continue;
    if (!ends) {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      ADD_FAILURE() << "</" << name << "> at " << at << " ends nothing";
      return names;
    } else {
      open.pop_back();
    }
  }
  EXPECT_TRUE(open.empty());
  return names;
}

// The exact figures in the row of a table that begins with this text, in order.
std::vector<std::uint64_t> figures_of_row(const std::string& page, const std::string& label) {
  const std::size_t at = page.find("<tr><td class=\"w\">" + label + "</td>");
  if (at == std::string::npos) return ADD_FAILURE() << "no row " << label, std::vector<std::uint64_t>();
  const std::string row = page.substr(at, page.find("</tr>", at) - at);
  static const std::regex figure("<data value=\"([0-9]+)\">");
  std::vector<std::uint64_t> figures;
  for (std::sregex_iterator each(row.begin(), row.end(), figure), end; each != end; ++each)
    figures.push_back(std::stoull((*each)[1]));
  return figures;
}

TEST(ReportHtml, LetsNoNameBecomeMarkupOrControlATerminal) {
  Report report = with_sites();
  report.process.command = {kHostile, "--", kHostile};
  report.process.exe = report.process.host = report.trace.path = kHostile;
  report.process.environment = {{"MALLOC_X", kHostile}};
  for (ThreadReport& thread : report.threads) thread.name = kHostile;
  for (SiteReport& each : report.sites)
    for (FrameReport& frame : each.frames) frame.function = frame.file = frame.module = kHostile;
  report.findings[0].text = report.findings[0].title = kHostile;
  report.findings[0].evidence = {{kHostile, std::string(kHostile)}};
  report.marks = {{1.0, "mark", kHostile, 1}};
  report.rss.notes = {kHostile};
  report.trace.damage = {{17, kHostile}};
  report.modules = {{kHostile, "", "missing", false, false}};
  const std::string page = report_html(report);
  EXPECT_THAT(tags_of(page),
              testing::IsSubsetOf({"!DOCTYPE", "html", "head", "meta", "title",   "style", "body",  "h1",       "h2",
                                   "h3",       "p",    "div",  "span", "table",   "thead", "tbody", "tr",       "th",
                                   "td",       "data", "i",    "b",    "section", "dl",    "dt",    "dd",       "details",
                                   "summary",  "ol",   "li",   "svg",  "g",       "line",  "text",  "polyline", "circle"}));
  for (const char c : page) ASSERT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= ' ') << static_cast<int>(c);
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;\\x1b[31m&amp;&quot;\\x01&lt;img"));
}

TEST(ReportHtml, LoadsNothingAndRunsNothing) {
  const std::string page = report_html(with_sites());
  EXPECT_THAT(page, HasSubstr("content=\"default-src &#39;none&#39;; style-src &#39;unsafe-inline&#39;\""));
  for (const char* way : {"http:", "https:", "src=", "href", "url(", "@import", "<script", "onclick"})
    EXPECT_THAT(page, Not(HasSubstr(way)));
}

TEST(ReportHtml, HasTheFiguresOfTheJson) {
  const Report report = with_sites();
  const Json json = report_json(report);
  const std::string page = report_html(report);
  EXPECT_THAT(figures_of_row(page, "total"), ElementsAre(json["rss"]["total_bytes"], json["end"]["rss"]["total_bytes"]));
  for (const Json& part : json["rss"]["parts"])
    if (part["bytes"] != 0) {
      EXPECT_EQ(figures_of_row(page, part["name"])[0], part["bytes"]) << part["name"];
    }
  for (const Json& thread : json["threads"])
    EXPECT_THAT(figures_of_row(page, thread["name"]),
                ElementsAre(thread["allocations"], thread["frees"], thread["bytes_allocated"], thread["live_bytes"],
                            thread["peak_live_bytes"], thread["pinned_bytes"], thread["freed_by_others"]));
  for (const Json& size : json["sizes"])
    EXPECT_THAT(figures_of_row(page, size["to"] == 32 ? "&lt;32 B" : "&lt;64 KiB"),
                ElementsAre(size["allocations"], size["bytes"], size["live_blocks"], size["live_bytes"]));
  const Json& arena = json["arenas"][1];
  EXPECT_THAT(figures_of_row(page, "arena 2"),
              ElementsAre(arena["system_bytes"], arena["resident_bytes"], arena["live_bytes"], arena["live_blocks"],
                          arena["trimmable_bytes"], arena["pinned_bytes"], arena["cached_bytes"]));
  for (const Json& point : json["timeline"])
    if (!point["rss_bytes"].is_null()) {
      EXPECT_THAT(figures_of_row(page, fmt::format("{:.3f} s", point["time_s"].get<double>())),
                  ElementsAre(point["rss_bytes"], point["system_bytes"], point["live_bytes"], point["pinned_bytes"]));
    }
  const Json& first = json["sites"][0];
  EXPECT_THAT(page, HasSubstr("<summary>fill at src/shop.cpp:20</summary>"));
  EXPECT_THAT(page, HasSubstr(fmt::format("<data value=\"{}\">3.0 MiB</data>", first["live_bytes"].get<std::uint64_t>())));
  EXPECT_THAT(page, HasSubstr("(2 of 9)"));
  for (const Json& finding : json["findings"]) EXPECT_THAT(page, HasSubstr(finding["text"].get<std::string>()));
}

TEST(ReportHtml, WritesEachExactFigureAsTextDoes) {
  const std::string page = report_html(with_sites());
  static const std::regex figure("<data value=\"([0-9]+)\">([^<]*)</data>");
  std::size_t count = 0;
  for (std::sregex_iterator each(page.begin(), page.end(), figure), end; each != end; ++each, count++) {
    const std::uint64_t exact = std::stoull((*each)[1]);
    EXPECT_TRUE((*each)[2] == findings::bytes_text(exact) || (*each)[2] == findings::count_text(exact)) << each->str();
  }
  EXPECT_GT(count, 60u);
}

TEST(ReportHtml, DrawsWhatIsKnownOverTime) {
  Report report = with_sites();
  const auto curves = [&] {
    std::set<std::string> drawn;
    const std::string page = report_html(report);
    for (const char* each : {"rss", "system", "live", "pinned"})
      if (page.find(fmt::format("<polyline class=\"{}\"", each)) != std::string::npos) drawn.insert(each);
    return drawn;
  };
  EXPECT_THAT(curves(), ElementsAre("live", "pinned", "rss", "system"));
  for (PointReport& point : report.timeline) point.rss_bytes.reset();
  EXPECT_THAT(curves(), ElementsAre("live", "pinned", "system"));
  report.timeline.clear();
  EXPECT_THAT(curves(), testing::IsEmpty());
}

TEST(ReportHtml, UnfoldsTheTreeOfAllStacksFromBothEnds) {
  const std::string page = report_html(with_sites());
  const auto row = [](std::uint64_t bytes, const char* text, const char* share, const char* name) {
    return fmt::format("<data value=\"{}\">{}</data><span class=\"soft\">{}</span>\n{}", bytes, text, share, name);
  };
  EXPECT_THAT(page, HasSubstr("<details open><summary>" + row(4 << 20, "4.0 MiB", "100 %", "main at src/shop.cpp")));
  EXPECT_THAT(page, HasSubstr("<div>" + row(3 << 20, "3.0 MiB", "75 %", "fill at src/shop.cpp:20")));
  EXPECT_THAT(page, HasSubstr("<details open><summary>" + row(3 << 20, "3.0 MiB", "75 %", "fill at src/shop.cpp:20")));
}

}  // namespace
}  // namespace heapspy::report
