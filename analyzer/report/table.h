// Columns of text, aligned, within a given width.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace heapspy::report {

class Table {
 public:
  // The first column is left-aligned, the others are right-aligned.
  // `headings[0]` is the table's title.
  explicit Table(std::vector<std::string> headings);
  // Aligns column `at` left (for bars and remarks).
  void align_left(std::size_t at);
  // Column `at` gives way where the table would be too wide; by default the first one.
  void give_way(std::size_t at);
  // Cells must be printable (printable.h). Missing cells are empty.
  void add(std::vector<std::string> cells);
  // Heading line, then one line per row; no trailing spaces.
  std::vector<std::string> lines(std::size_t width) const;

 private:
  std::vector<std::vector<std::string>> rows_;  // rows_[0] are the headings
  std::vector<bool> left_;
  std::size_t yielding_ = 0;
};

// Two blocks beside each other: the left one padded to `width` columns.
std::vector<std::string> beside(const std::vector<std::string>& left_block, std::size_t width,
                                const std::vector<std::string>& right_block);

}  // namespace heapspy::report
