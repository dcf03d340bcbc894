// Packs traces one after another in a thread of its own, so that a long one holds nobody up.
#pragma once
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace heapspy::collector {

class PackingQueue {
 public:
  static constexpr int kTries = 50;  // a second in all

  void start();
  // A process that has ended may need a moment to let go of its trace: then it is tried again.
  void add(const std::string& path, int tries);
  // Packs what is there and ends. Traces that somebody still writes are left as they are.
  void finish();
  const std::vector<std::string>& problems() const { return problems_; }  // after finish()

 private:
  struct Job {
    std::string path;
    int tries_left = 1;
  };
  void run();
  bool pack(Job& job);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::vector<std::string> problems_;
  bool finishing_ = false;
  std::thread thread_;
};

}  // namespace heapspy::collector
