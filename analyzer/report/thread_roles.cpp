#include "analyzer/report/thread_roles.h"

#include <algorithm>
#include <array>

namespace heapspy::report {
namespace {

struct Role {
  std::string_view begins, role;
};

constexpr std::array kRoles = {
    // Serial has none; Parallel, G1, CMS
    Role{"GC Thread#", "gc"},
    Role{"GC task thread#", "gc"},
    Role{"ParGC Thread#", "gc"},
    Role{"Gang worker#", "gc"},
    Role{"Concurrent Mark", "gc"},
    Role{"G1 ", "gc"},
    // ZGC; of JDK 21 to 23 the older one with an X
    Role{"ZDirector", "gc"},
    Role{"ZDriver", "gc"},
    Role{"ZMainWorker", "gc"},
    Role{"ZRuntime", "gc"},
    Role{"ZStat", "gc"},
    Role{"ZUncommit", "gc"},
    Role{"ZUnmapper", "gc"},
    Role{"ZWorker", "gc"},
    Role{"RuntimeWorker#", "gc"},
    Role{"XDirector", "gc"},
    Role{"XDriver", "gc"},
    Role{"XStat", "gc"},
    Role{"XUncommit", "gc"},
    Role{"XUnmapper", "gc"},
    Role{"XWorker", "gc"},
    Role{"Shenandoah ", "gc"},
    Role{"StringDedup", "gc"},
    Role{"StrDedup", "gc"},
    Role{"C1 CompilerThre", "compiler"},
    Role{"C2 CompilerThre", "compiler"},
    Role{"JVMCI Compiler", "compiler"},
    Role{"JVMCI-native Co", "compiler"},
    Role{"ArchiveWorkerTh", "vm"},
    Role{"VM Thread", "vm"},
    Role{"VM Periodic Tas", "vm"},
    Role{"Attach Listener", "vm"},
    Role{"Common-Cleaner", "vm"},
    Role{"DestroyJavaVM", "vm"},
    Role{"Finalizer", "vm"},
    Role{"JFR ", "vm"},
    Role{"Monitor Deflati", "vm"},
    Role{"Notification Th", "vm"},
    Role{"Reference Handl", "vm"},
    Role{"Service Thread", "vm"},
    Role{"Signal Dispatch", "vm"},
    Role{"Sweeper thread", "vm"},
};

}  // namespace

std::string_view jvm_role(std::string_view thread_name) {
  const auto found =
      std::find_if(kRoles.begin(), kRoles.end(), [&](const Role& each) { return thread_name.starts_with(each.begins); });
  return found == kRoles.end() ? std::string_view("java") : found->role;
}

}  // namespace heapspy::report
