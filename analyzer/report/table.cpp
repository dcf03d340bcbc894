#include "analyzer/report/table.h"

#include <algorithm>

#include "analyzer/report/printable.h"

namespace heapspy::report {
namespace {

constexpr std::size_t kGap = 2;      // spaces between columns
constexpr std::size_t kAtLeast = 8;  // columns that the one that gives way keeps, however wide the others are

void trim_end(std::string& line) { line.erase(line.find_last_not_of(' ') + 1); }

}  // namespace

Table::Table(std::vector<std::string> headings) : left_(headings.size(), false) {
  left_[0] = true;
  rows_.push_back(std::move(headings));
}

void Table::align_left(std::size_t at) { left_[at] = true; }

void Table::give_way(std::size_t at) { yielding_ = at; }

void Table::add(std::vector<std::string> cells) {
  cells.resize(left_.size());
  rows_.push_back(std::move(cells));
}

std::vector<std::string> Table::lines(std::size_t width) const {
  std::vector<std::size_t> widths(left_.size(), 0);
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); i++) widths[i] = std::max(widths[i], columns(row[i]));
  std::size_t all = kGap * (widths.size() - 1);
  for (const std::size_t each : widths) all += each;
  const std::size_t others = all - widths[yielding_];
  widths[yielding_] = std::min(widths[yielding_], width > others + kAtLeast ? width - others : kAtLeast);
  std::vector<std::string> result;
  for (const auto& row : rows_) {
    std::string line = left(row[0], widths[0]);
    for (std::size_t i = 1; i < row.size(); i++)
      line += std::string(kGap, ' ') + (left_[i] ? left(row[i], widths[i]) : right(row[i], widths[i]));
    trim_end(line);
    result.push_back(fit(line, width));
  }
  return result;
}

std::vector<std::string> beside(const std::vector<std::string>& left_block, std::size_t width,
                                const std::vector<std::string>& right_block) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < std::max(left_block.size(), right_block.size()); i++) {
    std::string line = left(i < left_block.size() ? left_block[i] : "", width);
    if (i < right_block.size()) line += right_block[i];
    trim_end(line);
    result.push_back(std::move(line));
  }
  return result;
}

}  // namespace heapspy::report
