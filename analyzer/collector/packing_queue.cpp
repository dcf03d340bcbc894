#include "analyzer/collector/packing_queue.h"

#include <sys/resource.h>

#include <chrono>
#include <exception>

#include "analyzer/trace/pack.h"
#include "analyzer/trace/reader.h"

namespace heapspy::collector {

namespace {

constexpr std::chrono::milliseconds kBetweenTries{20};
// Chunks of fewer words are worth packing again, with their neighbours.
constexpr std::uint64_t kKeepFromWords = 2048;
constexpr int kNice = 10;

}  // namespace

void PackingQueue::start() {
  thread_ = std::thread([this] { run(); });
}

void PackingQueue::add(const std::string& path, int tries) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back({path, tries});
  changed_.notify_one();
}

void PackingQueue::finish() {
  {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

// True when there is no more to be done for it.
bool PackingQueue::pack(Job& job) {
  try {
    trace::PackSettings settings;
    settings.keep_from_words = kKeepFromWords;
    settings.to_disk = false;  // no more than the recorder promises
    trace::pack_trace(job.path, job.path, settings);
  } catch (const trace::NotPacked& why) {
    if (why.why == trace::NotPacked::Why::running) return --job.tries_left <= 0;
    if (why.why == trace::NotPacked::Why::unwritable) problems_.emplace_back(why.what());
  } catch (const std::exception&) {
    // Not readable, or gone. Whoever reads it next is told.
  }
  return true;
}

void PackingQueue::run() {
  ::setpriority(PRIO_PROCESS, 0, kNice);  // this thread's
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return finishing_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    const bool done = pack(job);
    lock.lock();
    if (done) continue;
    jobs_.push_back(std::move(job));
    changed_.wait_for(lock, kBetweenTries, [] { return false; });
  }
}

}  // namespace heapspy::collector
