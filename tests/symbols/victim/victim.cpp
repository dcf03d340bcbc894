// Calls back from places that the tests know: lines with "call: NAME" are where the call NAME is made.
using Callback = void (*)();

namespace shop {

template <typename T>
struct Basket {
  [[gnu::always_inline]] inline void add(Callback back, volatile int* count) {
    *count = *count + 1;
    back();  // call: add
    *count = *count + 1;
  }
};

[[gnu::noinline]] static void fill(Callback back, volatile int* count) {
  Basket<long> basket;
  basket.add(back, count);  // call: fill
  *count = *count + 1;
}

}  // namespace shop

extern "C" [[gnu::visibility("default"), gnu::noinline]] void victim_fill(Callback back) {
  volatile int count = 0;
  shop::fill(back, &count);  // call: victim_fill
  count = count + 1;
}
