#include "analyzer/model/thread_stats.h"

#include <algorithm>
#include <unordered_map>

#include "analyzer/trace/snapshot.h"

namespace heapspy::model {

using trace::Block;
using trace::ThreadId;
using trace::Tick;

ThreadStats::Thread& ThreadStats::at(ThreadId id, Tick tick) {
  Thread& thread = threads_[id];
  if (!thread.seen) {
    thread.seen = true;
    thread.start = tick;
  }
  return thread;
}

ThreadStats::Sizes& ThreadStats::sizes_of(Thread& thread, std::uint64_t size) {
  const unsigned bucket = size_bucket(size);
  if (bucket >= thread.sizes.size()) {
    thread.sizes.reserve(bucket + 1);  // exactly: there may be many threads
    thread.sizes.resize(bucket + 1);
  }
  return thread.sizes[bucket];
}

void ThreadStats::hold(Thread& thread, std::uint64_t size) {
  thread.live_blocks++;
  thread.live_bytes += size;
  thread.peak_live_bytes = std::max(thread.peak_live_bytes, thread.live_bytes);
}

void ThreadStats::allocated(const Block& block, Tick tick) {
  Thread& thread = at(block.thread, tick);
  thread.allocations++;
  thread.bytes_allocated += block.size;
  thread.newest = block.address;
  Sizes& sizes = sizes_of(thread, block.size);
  sizes.allocations++;
  sizes.bytes += block.size;
  hold(thread, block.size);
}

void ThreadStats::released(const Block& block, ThreadId by, trace::Release, Tick tick) {
  Thread& thread = at(by, tick);
  thread.frees++;
  const bool newest = thread.newest == block.address;
  thread.newest = 0;
  if (block.thread == by) {
    thread.live_blocks--;
    thread.live_bytes -= block.size;
    if (newest) thread.temporary++;
    return;
  }
  thread.freed_for_others++;
  Thread& owner = threads_[block.thread];
  owner.live_blocks--;
  owner.live_bytes -= block.size;
  owner.freed_by_others++;
}

void ThreadStats::resized(const Block& before, const Block& after, ThreadId by, Tick tick) {
  if (before.known) {
    Thread& owner = threads_[before.thread];
    owner.live_blocks--;
    owner.live_bytes -= before.size;
  }
  Thread& thread = at(by, tick);
  thread.reallocations += after.size != 0;
  thread.bytes_allocated += after.size;
  thread.newest = 0;
  sizes_of(thread, after.size).bytes += after.size;
  hold(thread, after.size);
}

void ThreadStats::release_unseen(const Block& block, ThreadId said) {
  threads_[said].frees--;
  if (block.thread == said) return;
  threads_[said].freed_for_others--;
  threads_[block.thread].freed_by_others--;
}

void ThreadStats::vanished(const Block& block, Tick) {
  Thread& owner = threads_[block.thread];
  owner.live_blocks--;
  owner.live_bytes -= block.size;
}

void ThreadStats::failed(ThreadId id, trace::Origin, std::uint64_t, Tick tick) {
  Thread& thread = at(id, tick);
  thread.failed++;
  thread.newest = 0;
}

void ThreadStats::unknown_release(ThreadId id, std::uint64_t, trace::Release, bool, Tick tick) {
  Thread& thread = at(id, tick);
  thread.frees++;
  thread.newest = 0;
}

void ThreadStats::reattributed(const Block& block, ThreadId said, ThreadId is) {
  if (said == is) return;
  for (const auto& [id, step] : {std::pair{said, -1}, std::pair{is, 1}}) {
    Thread& thread = threads_[id];
    thread.seen = true;
    thread.frees += static_cast<std::uint64_t>(step);
    if (block.thread == id || block.inherited) continue;
    thread.freed_for_others += static_cast<std::uint64_t>(step);
    threads_[block.thread].freed_by_others += static_cast<std::uint64_t>(step);
  }
}

static constexpr std::size_t kKernelNameBytes = 15;  // that a thread's name may have

void ThreadStats::is_called(Thread& thread, std::string_view name, Tick tick) {
  std::vector<ThreadNaming>& names = thread.names;
  if (!names.empty()) {
    std::string& last = names.back().name;
    // Said again; or in full, which the kernel had cut.
    if (name == last || (last.size() == kKernelNameBytes && name.starts_with(last))) return static_cast<void>(last = name);
  }
  if (names.size() == kMostNames) {
    names.erase(names.begin());
    thread.names_left_out++;
  }
  names.push_back({tick, std::string(name)});
}

void ThreadStats::thread_started(ThreadId id, std::uint32_t tid, std::string_view name, std::uint64_t stack_address,
                                 Tick tick) {
  Thread& thread = at(id, tick);
  thread.start = std::min(thread.start, tick);
  thread.tid = tid;
  // In mode ring each ring begins with one, and it is the kernel's name.
  if (!name.empty() && name != thread.kernel_name) {
    thread.name = thread.kernel_name = name;
    is_called(thread, name, tick);
  }
  if (stack_address) thread.stack_address = stack_address;
}

// What a JVM's first thread is called while it waits for the others to end, its own work done.
static constexpr std::string_view kDoneInJava = "DestroyJavaVM";

void ThreadStats::thread_named(ThreadId id, std::string_view name, Tick tick) {
  Thread& thread = at(id, tick);
  std::string& known = thread.name;
  // What the kernel has of a name says nothing new (a JVM gives it after the name itself).
  if (name.empty() || (known.size() > name.size() && name.size() == kKernelNameBytes && known.starts_with(name))) return;
  is_called(thread, name, tick);
  if (name != kDoneInJava || known.empty()) known = name;
}

void ThreadStats::thread_is_java(ThreadId id, std::string_view group, bool daemon) {
  Thread& thread = threads_[id];
  thread.is_java = true;
  thread.java_group = group;
  thread.java_daemon = daemon;
}

void ThreadStats::thread_ended(ThreadId id, Tick tick) {
  Thread& thread = at(id, tick);
  thread.ended = true;
  thread.end = tick;
}

// The kernel's names, as /proc gives them, of threads that lived then. A name that is longer than the kernel's 15
// characters and begins with its name says more, and stays; so does one that was told since the kernel got its (a JVM's "main"
// is "java" to the kernel from its start to its end).
void ThreadStats::snapshot_taken(const trace::Snapshot& snapshot) {
  if (snapshot.thread_names.empty()) return;
  std::unordered_map<std::uint32_t, Thread*> newest;  // a tid that is used again belongs to the last thread that has it
  threads_.for_each([&](ThreadId, Thread& thread) {
    if (thread.seen && !thread.ended && thread.tid) newest[thread.tid] = &thread;
  });
  for (const auto& [tid, name] : snapshot.thread_names) {
    const auto found = newest.find(tid);
    if (found == newest.end() || name.empty()) continue;
    Thread& thread = *found->second;
    if (thread.kernel_name == name) continue;
    thread.kernel_name = name;
    if (thread.name.size() > name.size() && thread.name.starts_with(name)) continue;
    thread.name = name;
    is_called(thread, name, snapshot.begin);
  }
}

std::string ThreadStats::name(ThreadId id) const {
  const Thread* thread = threads_.find(id);
  return thread ? thread->name : std::string();
}

std::vector<ThreadFigures> ThreadStats::figures() const {
  std::vector<ThreadFigures> all;
  threads_.for_each([&](ThreadId id, const Thread& t) {
    if (!t.seen && t.live_blocks == 0 && t.freed_by_others == 0) return;
    ThreadFigures f;
    f.id = id;
    f.tid = t.tid;
    f.name = t.name;
    f.names = t.names;
    f.names_left_out = t.names_left_out;
    if (t.is_java && !t.java_group.empty()) f.java_group = t.java_group;
    if (t.is_java) f.java_daemon = t.java_daemon;
    if (t.seen) f.start = t.start;
    if (t.ended) f.end = t.end;
    f.stack_address = t.stack_address;
    f.allocations = t.allocations;
    f.frees = t.frees;
    f.reallocations = t.reallocations;
    f.failed = t.failed;
    f.bytes_allocated = t.bytes_allocated;
    f.live_bytes = t.live_bytes;
    f.live_blocks = t.live_blocks;
    f.peak_live_bytes = t.peak_live_bytes;
    f.temporary = t.temporary;
    f.freed_by_others = t.freed_by_others;
    f.freed_for_others = t.freed_for_others;
    for (unsigned i = 0; i < t.sizes.size(); i++)
      if (t.sizes[i].allocations || t.sizes[i].bytes)
        f.sizes.push_back({bucket_from(i), bucket_to(i), t.sizes[i].allocations, t.sizes[i].bytes, 0, 0});
    all.push_back(std::move(f));
  });
  return all;
}

}  // namespace heapspy::model
