// Something per thread, by ThreadId. Dense for ids as recorders give them out (1, 2, 3 …); an id far beyond, as only a
// damaged trace has, costs one entry and not all that it skips.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "analyzer/trace/event.h"

namespace heapspy::model {

template <class T>
class ThreadTable {
 public:
  // Valid until the next call with an id that was never used.
  T& operator[](trace::ThreadId id) {
    const std::uint32_t i = index(id);
    return i < dense_.size() ? dense_[i] : add(i);
  }

  const T* find(trace::ThreadId id) const {
    const std::uint32_t i = index(id);
    if (i < dense_.size()) return &dense_[i];
    const auto at = sparse_.find(i);
    return at == sparse_.end() ? nullptr : &at->second;
  }

  // In the order of ids; entries that were never asked for may be among them.
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::size_t i = 0; i < dense_.size(); i++) visit(trace::ThreadId(static_cast<std::uint32_t>(i)), dense_[i]);
    for (const auto& [i, value] : sparse_) visit(trace::ThreadId(i), value);
  }
  template <class Visit>
  void for_each(Visit visit) {
    for (std::size_t i = 0; i < dense_.size(); i++) visit(trace::ThreadId(static_cast<std::uint32_t>(i)), dense_[i]);
    for (auto& [i, value] : sparse_) visit(trace::ThreadId(i), value);
  }

 private:
  static constexpr std::size_t kSlack = 4096;

  T& add(std::uint32_t i) {
    if (i >= 2 * dense_.size() + kSlack) return sparse_[i];
    if (i >= dense_.capacity()) dense_.reserve(std::max<std::size_t>(i + 1, dense_.capacity() + dense_.capacity() / 4));
    dense_.resize(i + 1);
    while (!sparse_.empty() && sparse_.begin()->first < dense_.size()) {
      dense_[sparse_.begin()->first] = std::move(sparse_.begin()->second);
      sparse_.erase(sparse_.begin());
    }
    return dense_[i];
  }

  std::vector<T> dense_;
  std::map<std::uint32_t, T> sparse_;
};

}  // namespace heapspy::model
