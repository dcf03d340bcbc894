#include <algorithm>

#include "analyzer/report/html_sections.h"

namespace heapspy::report {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --ink: #1d2126; --soft: #5b6470; --line: #d9dee4; --page: #fff; --box: #f5f7f9; --bar: #7aa7d9;
  --rss: #c2432e; --system: #b5831a; --live: #2a6fb0; --pinned: #7b4fa3; --high: #c2432e; --medium: #b5831a; --low: #8a949f }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e6ea; --soft: #9aa4af; --line: #363d45; --page: #15181c; --box: #1e2329;
  --bar: #3f6a99; --rss: #ee7a66; --system: #e0b050; --live: #6fb0ee; --pinned: #b993dd; --high: #ee7a66; --medium: #e0b050 } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 72em; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.35em; overflow-wrap: anywhere; margin: 0 0 .3em }
h2 { font-size: 1.1em; margin: 2em 0 .5em; border-bottom: 1px solid var(--line); padding-bottom: .2em }
p { margin: .3em 0 } p.soft, .soft { color: var(--soft) }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th { font-weight: 600; color: var(--soft); font-size: .87em; vertical-align: bottom }
th, td { padding: .15em .8em .15em 0; vertical-align: top } th.n, td.n { text-align: right; white-space: nowrap } th.w, td.w { text-align: left }
tbody tr:hover { background: var(--box) } tr.sum td { font-weight: 600 }
td.w { overflow-wrap: anywhere; min-width: 6em } td:has(> details) { min-width: 26em }
i.bar { display: inline-block; height: .75em; background: var(--bar); border-radius: 2px; min-width: 1px }
td:has(i.bar) { width: 12em; min-width: 8em }
section { background: var(--box); border-left: 4px solid var(--low); border-radius: 4px; padding: .6em 1em; margin: .7em 0 }
section.high { border-color: var(--high) } section.medium { border-color: var(--medium) }
section h3 { margin: 0 0 .2em; font-size: 1em } dl { display: grid; grid-template-columns: max-content 1fr; gap: .15em 1em; margin: .4em 0 0 }
dt { color: var(--soft) } dd { margin: 0; overflow-wrap: anywhere }
details > summary { cursor: pointer } details details, .tree div { margin-left: 1.2em }
.tree { font-variant-numeric: tabular-nums; margin: .4em 0 } .tree data { display: inline-block; min-width: 5.5em; text-align: right }
.tree .soft { display: inline-block; min-width: 3.2em; text-align: right; margin-right: .8em }
ol { margin: .2em 0 .6em; padding-left: 2.2em; color: var(--soft); overflow-wrap: anywhere }
svg { width: 100%; height: auto; display: block } svg text { fill: var(--soft); font-size: 11px }
svg .grid { stroke: var(--line) } svg .mark { stroke: var(--soft); stroke-dasharray: 3 3 } svg polyline { fill: none; stroke-width: 1.8 }
.rss { stroke: var(--rss); color: var(--rss) } .system { stroke: var(--system); color: var(--system) }
.live { stroke: var(--live); color: var(--live) } .pinned { stroke: var(--pinned); color: var(--pinned) }
.legend b { font-weight: 600; margin-right: .3em } .legend span { margin-right: 1.4em }
)";

// Nothing is loaded and nothing runs, whatever stands in the page.
constexpr const char* kPolicy = "default-src 'none'; style-src 'unsafe-inline'";

}  // namespace

void begin_page(Html& html, const std::string& title) {
  html.doctype();
  html.open("html", {{"lang", "en"}});
  html.open("head");
  html.empty("meta", {{"charset", "utf-8"}});
  html.empty("meta", {{"http-equiv", "Content-Security-Policy"}, {"content", kPolicy}});
  html.empty("meta", {{"name", "viewport"}, {"content", "width=device-width"}});
  html.element("title", title);
  html.style(kStyle);
  html.close();
  html.open("body");
}

void end_page(Html& html) {
  html.close();
  html.close();
}

void write_heading(Html& html, const std::string& heading) { html.element("h2", heading); }

void write_paragraph(Html& html, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  std::string text;
  for (const std::string& line : lines)
    text += (text.empty() ? "" : " ") + line.substr(std::min(line.find_first_not_of(' '), line.size()));
  html.element("p", text, {{"class", "soft"}});
}

}  // namespace heapspy::report
