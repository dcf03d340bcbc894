// A C++ program of the usual kind: containers, strings, streams, exceptions, futures.
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

long work(int seed) {
  std::map<int, std::string> names;
  std::unordered_map<std::string, std::vector<int>> numbers;
  for (int i = 0; i < 3000; i++) {
    names[i * 7919 % 3001] = std::string(static_cast<size_t>(i % 90), 'x');
    numbers[std::to_string(i % 500)].push_back(i + seed);
  }
  long sum = 0;
  for (auto& [key, values] : numbers) sum += std::accumulate(values.begin(), values.end(), 0L);
  std::vector<std::shared_ptr<std::ostringstream>> streams;
  for (int i = 0; i < 50; i++) {
    streams.push_back(std::make_shared<std::ostringstream>());
    *streams.back() << sum << std::string(1000, 'y');
  }
  for (int i = 0; i < 200; i++) try {
      throw std::runtime_error(std::string(100, 'z') + std::to_string(i));
    } catch (const std::runtime_error& error) {
      sum += static_cast<long>(std::string(error.what()).size());
    }
  return sum;
}

}  // namespace

int main() {
  std::vector<std::future<long>> results;
  for (int i = 0; i < 6; i++) results.push_back(std::async(std::launch::async, work, i));
  for (auto& result : results) std::cout << result.get() << '\n';
  return 0;
}
