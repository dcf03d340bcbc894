#include "analyzer/report/condition.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "analyzer/findings/quantity.h"

namespace heapspy::report {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

[[noreturn]] void reject(std::string_view text, const std::string& why) {
  throw BadCondition(
      fmt::format("--fail-if \"{}\": {}; for example: --fail-if 'peak_rss > 1.1x' or 'totals.live_bytes > +64MiB'", text, why));
}

// 0: no such unit.
double unit_factor(std::string_view unit) {
  if (unit.empty() || unit == "B") return 1;
  if (unit == "KiB" || unit == "k") return 1024.0;
  if (unit == "MiB" || unit == "m") return 1024.0 * 1024;
  if (unit == "GiB" || unit == "g") return 1024.0 * 1024 * 1024;
  return 0;
}

const Compared& find(const Condition& condition, const Diff& diff) {
  if (const Compared* figure = diff.figure(condition.path)) return *figure;
  reject(condition.text,
         fmt::format("there is no figure \"{}\" (peak_rss, end_rss, or names of --json such as totals.allocations, "
                     "arenas.count, rss.parts.other)",
                     condition.path));
}

std::string number_text(double value, Unit unit) {
  switch (unit) {
    case Unit::bytes: return findings::bytes_text(static_cast<std::uint64_t>(std::max(value, 0.0)));
    case Unit::seconds: return findings::seconds_text(value);
    default: return findings::count_text(static_cast<std::uint64_t>(std::max(value, 0.0)));
  }
}

}  // namespace

Condition parse_condition(std::string_view text) {
  Condition condition;
  condition.text = std::string(text);
  const std::size_t at = text.find_first_of("<>");
  if (at == std::string_view::npos) reject(text, "there is no > >= < or <= in it");
  const bool equal = at + 1 < text.size() && text[at + 1] == '=';
  const bool greater = text[at] == '>';
  condition.compare = greater ? (equal ? Condition::Compare::greater_equal : Condition::Compare::greater)
                              : (equal ? Condition::Compare::less_equal : Condition::Compare::less);
  condition.path = std::string(trimmed(text.substr(0, at)));
  if (condition.path.empty()) reject(text, "there is no figure before the comparison");
  if (condition.path == "peak_rss") condition.path = "rss.total_bytes";
  if (condition.path == "end_rss") condition.path = "rss.end.total_bytes";

  std::string_view value = trimmed(text.substr(at + (equal ? 2 : 1)));
  const bool negative = !value.empty() && value.front() == '-';
  const bool is_change = negative || (!value.empty() && value.front() == '+');
  if (is_change) value.remove_prefix(1);
  const auto parsed = std::from_chars(value.data(), value.data() + value.size(), condition.value, std::chars_format::fixed);
  if (parsed.ec != std::errc{} || !std::isfinite(condition.value) || value.front() == '-')
    reject(text, "there is no number after the comparison");
  const std::string_view unit = trimmed(value.substr(static_cast<std::size_t>(parsed.ptr - value.data())));
  if (negative) condition.value = -condition.value;
  if (unit == "x") {
    if (is_change) reject(text, "times before (x) takes no sign");
    condition.against = Condition::Against::times_before;
  } else if (unit == "%") {
    if (!is_change) reject(text, "a change in percent needs a sign, as in +10%");
    condition.against = Condition::Against::change_percent;
  } else {
    const double factor = unit_factor(unit);
    if (factor == 0) reject(text, fmt::format("\"{}\" is no unit (B, KiB, MiB, GiB, k, m, g, x, %)", unit));
    condition.value *= factor;
    condition.against = is_change ? Condition::Against::change : Condition::Against::absolute;
  }
  return condition;
}

bool holds(const Condition& condition, const Diff& diff) {
  const Compared& figure = find(condition, diff);
  const bool needs_before = condition.against != Condition::Against::absolute;
  if (!figure.after || (needs_before && !figure.before))
    throw UnknownFigure(fmt::format("--fail-if \"{}\" cannot be decided: {} is not known {}", condition.text, condition.path,
                                    figure.after ? "before" : "after"));
  double left = *figure.after, right = condition.value;
  switch (condition.against) {
    case Condition::Against::absolute: break;
    case Condition::Against::times_before: right *= *figure.before; break;
    case Condition::Against::change: left = *figure.after - *figure.before; break;
    case Condition::Against::change_percent:
      left = *figure.after - *figure.before;
      right = right / 100 * *figure.before;
      break;
  }
  switch (condition.compare) {
    case Condition::Compare::greater: return left > right;
    case Condition::Compare::greater_equal: return left >= right;
    case Condition::Compare::less: return left < right;
    default: return left <= right;
  }
}

std::string explain(const Condition& condition, const Diff& diff) {
  const Compared& figure = find(condition, diff);
  const auto text = [&](const std::optional<double>& value) {
    return value ? number_text(*value, figure.unit) : std::string("?");
  };
  return fmt::format("{}: {} before, {} after", condition.text, text(figure.before), text(figure.after));
}

}  // namespace heapspy::report
