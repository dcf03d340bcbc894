#include "analyzer/report/thread_roles.h"

#include <gtest/gtest.h>

namespace heapspy::report {
namespace {

TEST(ThreadRoles, AreToldByTheNamesThatHotSpotGives) {
  for (const char* name : {"GC Thread#0", "GC Thread#13", "G1 Main Marker", "G1 Conc#0", "G1 Refine#0", "G1 Service",
                           "ZDirector", "ZDriverMinor", "ZWorkerYoung#1", "ZWorker#0", "ZStat", "ZUnmapper", "XWorker#1",
                           "RuntimeWorker#0", "Shenandoah GC T", "Shenandoah Control Thread", "StringDedupProc"})
    EXPECT_EQ(jvm_role(name), "gc") << name;
  for (const char* name : {"C1 CompilerThre", "C2 CompilerThread12", "JVMCI CompilerThread0"})
    EXPECT_EQ(jvm_role(name), "compiler") << name;
  for (const char* name :
       {"VM Thread", "VM Periodic Tas", "Reference Handl", "Reference Handler", "Finalizer", "Common-Cleaner",
        "Signal Dispatch", "Service Thread", "Monitor Deflation Thread", "Attach Listener", "DestroyJavaVM", "ArchiveWorkerTh"})
    EXPECT_EQ(jvm_role(name), "vm") << name;
  for (const char* name : {"main", "zip-worker-1", "pool-1-thread-3", "GCache", "Zip", "process reaper", ""})
    EXPECT_EQ(jvm_role(name), "java") << name;
}

}  // namespace
}  // namespace heapspy::report
