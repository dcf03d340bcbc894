// Writes HTML, element by element. Text and values of attributes are made printable (printable.h) and escaped here, so that no
// name from a trace can become markup. Tags and names of attributes are literals of ours.
//
//   Html html;
//   html.open("p", {{"class", "facts"}});
//   html.text(report.process.exe);
//   html.close();
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/report/report.h"

namespace heapspy::report {

class Html {
 public:
  struct Attribute {
    const char* name;
    std::string value;
  };
  using Attributes = std::initializer_list<Attribute>;

  void open(const char* tag, Attributes = {});
  void close();  // what was opened last
  void text(std::string_view);
  void element(const char* tag, std::string_view text, Attributes = {});
  void empty(const char* tag, Attributes = {});  // one that has no content and no end: <meta>

  void doctype() { out_ += "<!DOCTYPE html>\n"; }
  void style(const char* rules);  // a literal of ours, as it is

  // As text writes them; the exact figure is the value of a <data> element. "?" where it is not known.
  void bytes(const Bytes&);
  void count(const Count&);

  // Of a page that is whole: nothing is open.
  const std::string& written() const { return out_; }

 private:
  void begin(const char* tag, Attributes);
  void figure(std::uint64_t exact, const std::string& as);

  std::string out_;
  std::vector<const char*> open_;
};

// A table: the first column is text, the others are figures unless `words` names them.
class HtmlTable {
 public:
  HtmlTable(Html&, const std::vector<std::string>& headings, std::vector<std::size_t> words = {});
  ~HtmlTable();
  HtmlTable(const HtmlTable&) = delete;
  HtmlTable& operator=(const HtmlTable&) = delete;

  HtmlTable& row();
  HtmlTable& text(std::string_view);
  HtmlTable& bytes(const Bytes&);
  HtmlTable& count(const Count&);
  HtmlTable& bar(double share);  // drawn, 0 to 1
  // For what the other calls do not write: the cell's content is written between these.
  void open_cell();
  void close_cell() { html_.close(); }

 private:
  bool is_word() const;

  Html& html_;
  std::vector<std::size_t> words_;
  std::size_t column_ = 0;
  bool in_row_ = false;
};

}  // namespace heapspy::report
