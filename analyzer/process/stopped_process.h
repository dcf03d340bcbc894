// A live process whose threads stand still while this object lives: seized and interrupted by ptrace, without a signal that it
// or its parent could see. If this program dies meanwhile, the kernel lets the threads go. Calls that Linux does not restart
// are started again (interrupted_call.h).
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/process/live_process.h"
#include "analyzer/process/target.h"

namespace heapspy::process {

class StoppedProcess : public Target {
 public:
  // Returns when every thread stands still and the mappings are read. Throws TargetError; then nothing is stopped any more.
  // `process` must outlive it. Construction, use and release on one thread (ptrace's rule). `held`: a thread of it that stands
  // still by ptrace already (a BorrowedThread of the same caller), and goes on doing so; 0: none.
  explicit StoppedProcess(const LiveProcess& process, pid_t held = 0);
  ~StoppedProcess() override;
  StoppedProcess(const StoppedProcess&) = delete;
  StoppedProcess& operator=(const StoppedProcess&) = delete;

  // Lets the threads go on, as they were (a signal that was about to be delivered is). Returns the seconds that they stood
  // still, from the first one's stop on. Only mappings, threads and file_of may be asked afterwards.
  double release();
  // Threads that were in a call that cannot be interrupted: they did not stop, and ran no code of theirs.
  std::size_t asleep() const { return asleep_ + sleepers_.size(); }

  const std::vector<Mapping>& mappings() const override { return mappings_; }
  const std::vector<ThreadState>& threads() const override { return threads_; }
  std::uint64_t page_bytes() const override { return page_bytes_; }
  std::size_t read(std::uint64_t address, std::span<std::byte> to) const override;
  std::vector<bool> read_pieces(std::span<const Piece> pieces, std::byte* to) const override;
  std::optional<std::vector<PageState>> pages(std::uint64_t start, std::size_t count) const override {
    return process_.page_states(start, count);
  }
  std::string file_of(const Mapping&) const override;

 private:
  class Sleeper;
  struct Seized {
    bool stopped = false;
    bool by_interrupt = false;  // of ours; else it stands for a signal, or with its whole process (SIGSTOP)
    int signal = 0;             // to be delivered when it goes on
  };
  void hold_sleepers();
  void seize_all();
  bool seize(pid_t tid);
  void wait_until_stopped();
  void take_wait_status(pid_t tid, int status);
  void read_registers();
  void let_go();
  char state_of(pid_t tid) const;

  const LiveProcess& process_;
  const pid_t held_;
  std::unordered_map<pid_t, Seized> seized_;
  std::unordered_map<pid_t, std::unique_ptr<Sleeper>> sleepers_;
  std::chrono::steady_clock::time_point begin_;
  std::size_t asleep_ = 0;
  bool released_ = false;
  std::uint64_t page_bytes_;
  std::vector<Mapping> mappings_;
  std::vector<ThreadState> threads_;
};

}  // namespace heapspy::process
