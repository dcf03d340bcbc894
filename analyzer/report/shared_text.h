// A text of which many hold the same one, each once in memory: functions, files and modules of frames. A million frames of a
// report name a few thousand. Kept to the end of the program, which makes one report; for one thread at a time.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace heapspy::report {

class SharedText {
 public:
  SharedText() : text_(of("")) {}
  // Implicit, so that it stands where a std::string would. NOLINTBEGIN(google-explicit-constructor)
  SharedText(std::string_view text) : text_(of(text)) {}
  SharedText(const std::string& text) : text_(of(text)) {}
  SharedText(const char* text) : text_(of(text)) {}

  operator const std::string&() const { return *text_; }
  // NOLINTEND(google-explicit-constructor)
  const std::string& str() const { return *text_; }
  bool empty() const { return text_->empty(); }
  bool operator==(const SharedText&) const = default;  // the same text is the same place

 private:
  friend struct std::hash<SharedText>;
  static const std::string* of(std::string_view);

  const std::string* text_;
};

}  // namespace heapspy::report

template <>
struct std::hash<heapspy::report::SharedText> {
  std::size_t operator()(const heapspy::report::SharedText& shared) const {
    return std::hash<const std::string*>()(shared.text_);
  }
};
