// A trace of a JVM: who in it called malloc, what its threads are for, and what verdicts hear of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "analyzer/report/build.h"
#include "analyzer/report/report_html.h"
#include "analyzer/report/report_json.h"
#include "analyzer/report/report_text.h"
#include "tests/model/world.h"
#include "tests/support/amounts.h"
#include "tests/support/trace_builder.h"

namespace heapspy::test {
namespace {

using namespace report;
using testing::ElementsAre;
using testing::HasSubstr;

// libjvm, Debian's zlib below the JDK's libzip, a library of the program's own, and the C library between them and malloc.
class JavaTrace : public testing::Test {
 protected:
  JavaTrace() {
    trace.process(format::ProcessTag::allocator, "glibc").process(format::ProcessTag::glibc_version, "2.36");
    trace.module(1, "/jdk/lib/server/libjvm.so", "JJJJ", 0x7f0000000000);
    trace.module(2, "/jdk/lib/libzip.so", "ZZZZ", 0x7f1000000000);
    trace.module(3, "/lib/libz.so.1", "zzzz", 0x7f2000000000);
    trace.module(4, "/opt/libshop.so", "SSSS", 0x7f3000000000);
    trace.module(5, "/lib/libc.so.6", "CCCC", 0x7f4000000000);
    trace.method(6, "java/util/zip/Inflater.init(Z)J");
    trace.method(7, "shop/Cart.add(I)V");
    trace.method(8, "java/lang/Thread.run()V");
    const std::uint32_t run = trace.cell(8, trace.frame(0, 0x7f0000000100, 1), format::CellKind::java);
    const std::uint32_t cart = trace.cell(7, run, format::CellKind::java);
    of_zip = trace.cell(6, cart, format::CellKind::java);
    zip = trace.frame(trace.frame(of_zip, 0x7f1000000200, 2), 0x7f2000000300, 3);
    shop = trace.frame(trace.frame(cart, 0x7f3000000400, 4), 0x7f4000000500, 5);  // strdup
    jvm = trace.frame(trace.frame(0, 0x7f0000000600, 1), 0x7f4000000700, 5);
  }
  Report build() {
    trace::Snapshot snapshot;
    snapshot.begin = snapshot.end = 3 * kSecond;
    snapshot.reason = format::SnapshotReason::exit;
    add_memory(snapshot, kHeap, 3000, "[heap]");
    snapshot.brk_end = kHeap + 3000 * 4096;
    snapshot.cgroup = cgroup;
    trace.snapshot(snapshot);
    TemporaryFile file(trace.bytes());
    return build_report(file.path(), {});
  }
  void record() {
    auto& main = trace.thread("main", 101);
    main.stamp(kSecond).stack(zip).malloc(kHeap + 0x10, 40000).malloc(kHeap + 0x10010, 7000);
    main.stack(shop).malloc(kHeap + 0x20010, 100);
    auto& collector = trace.thread("GC Thread#0", 102);
    collector.stamp(kSecond).stack(jvm).malloc(kHeap + 0x30010, 3000);
    auto& cleaner = trace.thread("Common-Cleaner", 103);
    cleaner.stamp(2 * kSecond).free(kHeap + 0x10);
  }
  TraceBuilder trace;
  std::uint32_t of_zip = 0, zip = 0, shop = 0, jvm = 0;
  std::map<std::string, std::string> cgroup;
};

TEST_F(JavaTrace, BlocksAreTheLibrarysThatAskedForThem) {
  record();
  const Report report = build();
  ASSERT_TRUE(report.java);
  const auto& callers = report.java->callers;
  ASSERT_EQ(callers.size(), 3u);
  EXPECT_EQ(callers[0].library, "/jdk/lib/libzip.so");  // and not zlib's, which it calls
  EXPECT_EQ(callers[0].live_bytes, 7000u);
  EXPECT_EQ(callers[0].live_blocks, 1u);
  EXPECT_EQ(callers[0].bytes, 47000u);
  EXPECT_EQ(callers[0].allocations, 2u);
  EXPECT_EQ(callers[1].library, "/jdk/lib/server/libjvm.so");
  EXPECT_EQ(callers[1].live_bytes, 3000u);
  EXPECT_EQ(callers[2].library, "/opt/libshop.so");
  EXPECT_EQ(callers[2].live_bytes, 100u);
  const auto json = report_json(report);
  EXPECT_EQ(json["java"]["callers"][0]["library"], "/jdk/lib/libzip.so");
  EXPECT_EQ(json["java"]["native_memory"], nullptr);
  std::string text;
  for (const std::string& line : report_text(report, {})) text += line + "\n";
  EXPECT_THAT(text, HasSubstr("Malloc by library at the RSS peak (3.0 s)"));
  EXPECT_THAT(text, HasSubstr("libshop.so"));
}

TEST_F(JavaTrace, ThreadsHaveTheirRoles) {
  record();
  const Report report = build();
  std::vector<std::string> roles;
  for (const ThreadReport& thread : report.threads) roles.push_back(thread.role.value_or("?"));
  EXPECT_THAT(roles, ElementsAre("java", "gc", "vm"));
  ASSERT_EQ(report.java->roles.size(), 3u);
  EXPECT_EQ(report.java->roles[0].role, "java");
  EXPECT_EQ(report.java->roles[0].live_bytes, 7100u);
  EXPECT_EQ(report.java->roles[1].role, "gc");
  EXPECT_EQ(report.java->roles[1].allocations, 1u);
  EXPECT_EQ(report_json(report)["threads"][1]["role"], "gc");
}

TEST_F(JavaTrace, ThreadsHaveTheirGroupsAndFormerNames) {
  auto& main = trace.thread("java", 101);
  main.stamp(kSecond).name("main").java("main", false).stack(zip).malloc(kHeap + 0x10, 40000);
  main.name("Reference Handler", 102).java("system", true, 102);  // that was there before Java could be asked
  main.stamp(2 * kSecond).name("served 1").stamp(2 * kSecond + 1000);
  trace.thread("Reference Handl", 102).stamp(kSecond).malloc(kHeap + 0x10010, 64).stamp(2 * kSecond);
  trace.thread("native", 103).stamp(kSecond).malloc(kHeap + 0x20010, 8);
  const Report report = build();
  const auto json = report_json(report);
  const auto& threads = json["threads"];
  EXPECT_EQ(threads[0]["group"], "main");
  EXPECT_EQ(threads[0]["daemon"], false);
  ASSERT_EQ(threads[0]["names"].size(), 3u);
  EXPECT_EQ(threads[0]["names"][1]["name"], "main");
  EXPECT_DOUBLE_EQ(threads[0]["names"][1]["time_s"], 1.0);
  EXPECT_EQ(threads[0]["names"][2]["name"], "served 1");
  EXPECT_DOUBLE_EQ(threads[0]["names"][2]["time_s"], 2.0);
  EXPECT_EQ(threads[0]["names_left_out"], 0u);
  EXPECT_EQ(threads[1]["name"], "Reference Handler");
  EXPECT_EQ(threads[1]["group"], "system");
  EXPECT_EQ(threads[1]["daemon"], true);
  EXPECT_EQ(threads[1]["names"].size(), 1u);
  EXPECT_EQ(threads[2]["group"], nullptr);
  EXPECT_EQ(threads[2]["daemon"], nullptr);
  std::string text;
  TextOptions by_thread;
  by_thread.by = By::thread;
  for (const std::string& line : report_text(report, by_thread)) text += line + "\n";
  EXPECT_THAT(text, HasSubstr("Java's threads       group   daemon\n"
                              "  served 1           main    no\n"
                              "  Reference Handler  system  yes\n"
                              "\n"
                              "Renamed: names, and since when\n"
                              "  tid 101: main (1.0 s), served 1 (2.0 s)\n"));
  EXPECT_THAT(report_html(report, {}), HasSubstr("main (1.0 s), served 1 (2.0 s)"));
}

TEST_F(JavaTrace, PageShowsWhatTheTextShows) {
  record();
  const Report report = build();
  const std::string page = report_html(report, {});
  EXPECT_THAT(page, HasSubstr("Malloc by library (3) at the RSS peak (3.0 s)"));
  EXPECT_THAT(page, HasSubstr("libshop.so"));
  EXPECT_THAT(page, HasSubstr("Threads by role"));
  EXPECT_THAT(page, HasSubstr("garbage collection"));
}

// The cgroup's quota is what HotSpot counts, rounded up, where it is less than the CPUs that the process may run on.
TEST_F(JavaTrace, CpusAreThoseThatItsCgroupGrants) {
  trace.process(format::ProcessTag::cpus, "8");
  for (int i = 0; i < 6; i++) trace.thread("GC Thread#" + std::to_string(i), 200 + static_cast<std::uint32_t>(i));
  record();
  cgroup = {{"cpu.max", "max 100000"}, {"../cpu.max", "150000 100000"}};
  const Report report = build();
  EXPECT_EQ(report.process.cpus, 8u);
  EXPECT_EQ(report.process.cpu_quota, 1.5);
  const auto found = std::find_if(report.findings.begin(), report.findings.end(),
                                  [](const findings::Finding& each) { return each.kind == "collector_threads"; });
  ASSERT_NE(found, report.findings.end());
  EXPECT_THAT(found->text, HasSubstr("7 GC threads on 2 CPUs (its cgroup grants the time of 1.5)"));
  EXPECT_EQ(report_json(report)["process"]["cpu_quota"], 1.5);
}

TEST_F(JavaTrace, StreamsAreToldByTheirMethodsAndSoIsWhoEndsThem) {
  auto& main = trace.thread("main", 101);
  main.stamp(kSecond).stack(trace.frame(of_zip, 0x7f0000000800, 1)).malloc(kHeap + 0xa00010, 9000);  // the JVM's own
  main.stack(zip);
  for (std::uint64_t i = 0; i < 200; i++) main.malloc(kHeap + 0x10 + i * 0xa000, 40000);
  main.stamp(kSecond + 1000);
  auto& cleaner = trace.thread("Common-Cleaner", 103);
  cleaner.stamp(2 * kSecond);
  for (std::uint64_t i = 0; i < 80; i++) cleaner.free(kHeap + 0x10 + i * 0xa000);
  cleaner.stamp(2 * kSecond + 1000);
  const Report report = build();
  const auto zip_streams = std::find_if(report.findings.begin(), report.findings.end(),
                                        [](const findings::Finding& each) { return each.kind == "zip_streams"; });
  ASSERT_NE(zip_streams, report.findings.end());
  EXPECT_EQ(zip_streams->bytes, 120 * 40000u);
  EXPECT_THAT(zip_streams->text, HasSubstr("120 live blocks"));
  EXPECT_THAT(zip_streams->text, HasSubstr("Asked for by shop.Cart.add"));
  EXPECT_THAT(zip_streams->text,
              HasSubstr("Of 80 such blocks that ended in the whole run, 80 were freed by another thread than "
                        "had asked, 80 of them by Common-Cleaner: after a collection"));
}

TEST(JavaReport, IsNotThereWithoutAJvm) {
  TraceBuilder trace;
  auto& main = trace.thread("GC Thread#0", 100);
  main.stamp(kSecond).malloc(kHeap + 0x10, 64);
  TemporaryFile file(trace.bytes());
  const Report report = build_report(file.path(), {});
  EXPECT_FALSE(report.java);
  EXPECT_EQ(report.threads[0].role, std::nullopt);
  EXPECT_EQ(report_json(report)["java"], nullptr);
}

}  // namespace
}  // namespace heapspy::test
