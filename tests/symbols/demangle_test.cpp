#include "analyzer/symbols/demangle.h"

#include <gtest/gtest.h>

namespace heapspy::test {
namespace {

using symbols::demangle;

TEST(Demangle, ReadsNamesOfCxx) {
  EXPECT_EQ(demangle("_ZNSt6vectorIiSaIiEE9push_backERKi"), "std::vector<int, std::allocator<int> >::push_back(int const&)");
  EXPECT_EQ(demangle("_Znwm"), "operator new(unsigned long)");
}

TEST(Demangle, ReadsOlderNamesOfRustAndLeavesTheirHashOut) {
  EXPECT_EQ(demangle("_ZN5alloc3vec12Vec$LT$T$GT$4push17h0123456789abcdefE"), "alloc::vec::Vec<T>::push");
  EXPECT_EQ(demangle("_ZN58_$LT$alloc..string..String$u20$as$u20$core..fmt..Debug$GT$3fmt17hfedcba9876543210E"),
            "<alloc::string::String as core::fmt::Debug>::fmt");
  EXPECT_EQ(demangle("_ZN4core3ops8function6FnOnce40call_once$u7b$$u7b$vtable.shim$u7d$$u7d$17h0123456789abcdefE"),
            "core::ops::function::FnOnce::call_once{{vtable.shim}}");
}

TEST(Demangle, ReadsNewerNamesOfRust) {
  EXPECT_EQ(demangle("_RNvCskwGfYPst2Cb_5hello4main"), "hello::main");
  EXPECT_EQ(demangle("_RNvMNtC4shop6basketINtB2_6BasketlE3add"), "<shop::basket::Basket<i32>>::add");
  EXPECT_EQ(demangle("_RINvNtC3std3mem8align_ofNtNtC3std3mem12DiscriminantE"), "std::mem::align_of::<std::mem::Discriminant>");
}

TEST(Demangle, LeavesWhatItDoesNotKnow) {
  for (const char* name : {"main", "", "_Z", "_Zoops!", "_R", "_Roops!", "_ZN5helloE$"}) EXPECT_EQ(demangle(name), name);
  EXPECT_EQ(demangle(nullptr), "");
}

}  // namespace
}  // namespace heapspy::test
