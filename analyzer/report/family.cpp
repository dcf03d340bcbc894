#include "analyzer/report/family.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

#include "analyzer/trace/glance.h"

namespace heapspy::report {
namespace {

Member member_of(const std::string& path) {
  const format::FileHeader header = trace::glance(path);
  Member member;
  member.path = path;
  member.pid = header.pid;
  member.forked = header.forked != 0;
  member.tick_kind = header.tick_kind;
  member.origin = header.origin;
  member.start_realtime_ns = header.start_realtime_ns;
  member.parent_start_realtime_ns = header.parent_start_realtime_ns;
  member.start_monotonic_ns = header.pairs[0].monotonic_ns;
  member.start_jiffies = header.start_jiffies;
  member.frozen_by = header.frozen_by;
  return member;
}

std::string copy_reason(const Member& copy, const Member& kept) {
  const std::string name = std::filesystem::path(kept.path).filename().string();
  if (copy.frozen_by != format::Trigger::none) return fmt::format("frozen from the rings of {}", name);
  return fmt::format("of the same process as {}", name);
}

}  // namespace

std::string reason_of(const trace::Unreadable& reason, const std::string& path) {
  std::string text = reason.what();
  if (text.starts_with(path + ": ")) text.erase(0, path.size() + 2);
  return text;
}

Family find_family(const std::vector<std::string>& paths) {
  Family family;
  std::vector<Member> all;
  for (const std::string& path : paths) try {
      all.push_back(member_of(path));
    } catch (const trace::Unreadable& reason) {
      family.unreadable.push_back({path, reason_of(reason, path)});
    }
  // Of the traces of one process the first is taken: the one that went on before those that were frozen.
  const auto key = [](const Member& m) { return std::tuple(m.start_realtime_ns, m.pid, m.origin); };
  std::stable_sort(all.begin(), all.end(), [&](const Member& a, const Member& b) {
    return std::pair(key(a), a.frozen_by) < std::pair(key(b), b.frozen_by);
  });
  for (Member& member : all) {
    if (!family.members.empty() && key(family.members.back()) == key(member))
      family.copies.push_back({member.path, copy_reason(member, family.members.back())});
    else
      family.members.push_back(std::move(member));
  }
  std::map<std::uint64_t, std::size_t> by_start;
  for (std::size_t i = 0; i < family.members.size(); i++) {
    Member& member = family.members[i];
    if (member.forked)
      if (const auto parent = by_start.find(member.parent_start_realtime_ns); parent != by_start.end()) {
        member.has_parent = true;
        family.members[parent->second].children.push_back(i);  // in the order of members, which is that of starts
      }
    by_start.emplace(member.start_realtime_ns, i);
  }
  return family;
}

}  // namespace heapspy::report
