#include "analyzer/report/html.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/findings/quantity.h"
#include "analyzer/report/printable.h"

namespace heapspy::report {
namespace {

std::string escaped(std::string_view raw) {
  std::string text;
  for (const char c : printable(raw)) switch (c) {
      case '&': text += "&amp;"; break;
      case '<': text += "&lt;"; break;
      case '>': text += "&gt;"; break;
      case '"': text += "&quot;"; break;
      case '\'': text += "&#39;"; break;
      default: text += c;
    }
  return text;
}

}  // namespace

void Html::begin(const char* tag, Attributes attributes) {
  out_ += '<';
  out_ += tag;
  for (const Attribute& each : attributes) {
    out_ += ' ';
    out_ += each.name;
    if (!each.value.empty()) out_ += "=\"" + escaped(each.value) + '"';
  }
  out_ += '>';
}

void Html::open(const char* tag, Attributes attributes) {
  begin(tag, attributes);
  open_.push_back(tag);
}

void Html::close() {
  out_ += "</";
  out_ += open_.back();
  out_ += ">\n";
  open_.pop_back();
}

void Html::text(std::string_view raw) { out_ += escaped(raw); }

void Html::element(const char* tag, std::string_view content, Attributes attributes) {
  open(tag, attributes);
  text(content);
  close();
}

void Html::empty(const char* tag, Attributes attributes) {
  begin(tag, attributes);
  out_ += '\n';
}

void Html::style(const char* rules) {
  out_ += "<style>";
  out_ += rules;
  out_ += "</style>\n";
}

void Html::figure(std::uint64_t exact, const std::string& as) {
  begin("data", {{"value", std::to_string(exact)}});
  out_ += escaped(as) + "</data>";
}

void Html::bytes(const Bytes& figure_or_none) {
  if (figure_or_none)
    figure(*figure_or_none, findings::bytes_text(*figure_or_none));
  else
    out_ += '?';
}

void Html::count(const Count& figure_or_none) {
  if (figure_or_none)
    figure(*figure_or_none, findings::count_text(*figure_or_none));
  else
    out_ += '?';
}

HtmlTable::HtmlTable(Html& html, const std::vector<std::string>& headings, std::vector<std::size_t> words)
    : html_(html), words_(std::move(words)) {
  html_.open("div", {{"class", "wide"}});
  html_.open("table");
  html_.open("thead");
  html_.open("tr");
  for (const std::string& heading : headings) {
    html_.element("th", heading, {{"class", is_word() ? "w" : "n"}});
    column_++;
  }
  html_.close();
  html_.close();
  html_.open("tbody");
}

HtmlTable::~HtmlTable() {
  if (in_row_) html_.close();
  for (int i = 0; i < 3; i++) html_.close();
}

bool HtmlTable::is_word() const { return column_ == 0 || std::find(words_.begin(), words_.end(), column_) != words_.end(); }

HtmlTable& HtmlTable::row() {
  if (in_row_) html_.close();
  html_.open("tr");
  in_row_ = true;
  column_ = 0;
  return *this;
}

void HtmlTable::open_cell() {
  html_.open("td", {{"class", is_word() ? "w" : "n"}});
  column_++;
}

HtmlTable& HtmlTable::text(std::string_view content) {
  open_cell();
  html_.text(content);
  close_cell();
  return *this;
}

HtmlTable& HtmlTable::bytes(const Bytes& figure) {
  open_cell();
  html_.bytes(figure);
  close_cell();
  return *this;
}

HtmlTable& HtmlTable::count(const Count& figure) {
  open_cell();
  html_.count(figure);
  close_cell();
  return *this;
}

HtmlTable& HtmlTable::bar(double share) {
  open_cell();
  html_.element("i", "", {{"class", "bar"}, {"style", fmt::format("width:{:.1f}%", 100 * std::clamp(share, 0.0, 1.0))}});
  close_cell();
  return *this;
}

}  // namespace heapspy::report
