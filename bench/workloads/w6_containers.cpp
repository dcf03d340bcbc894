// w6: an ordinary C++ program: a map from strings to vectors of strings is filled, thinned out and read.
// Argument: keys (default 200 000). The number of events is an estimate (6 per key): count them with the count shim.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "workload.h"

int main(int argc, char** argv) {
  const long keys = argument(argc, argv, 1, 200000);
  std::uint64_t state = 42;
  const double start = seconds_now();

  std::map<std::string, std::vector<std::string>> index;
  for (long i = 0; i < keys; i++) {
    const std::string key =
        "a-key-that-does-not-fit-inline-" + std::to_string(next_random(&state) % static_cast<std::uint64_t>(keys));
    index[key].push_back("value-that-is-long-enough-for-the-heap-" + std::to_string(i));
    if (i % 3 == 0) index.erase(index.begin());
  }
  std::size_t total = 0;
  for (const auto& [key, values] : index)
    for (const auto& value : values) total += value.size();
  KEEP(&total);

  print_result("w6", 6.0 * static_cast<double>(keys), seconds_now() - start);
}
