// Every verdict, one function and one file each. nullopt: it does not apply, or the figures it needs are not known.
// A verdict sees Facts only, never another verdict.
#pragma once
#include <optional>
#include <vector>

#include "analyzer/findings/facts.h"
#include "analyzer/findings/finding.h"

namespace heapspy::findings {

// What is said of free memory where Facts::locked.
inline constexpr const char* kLocked =
    " The process has locked its memory (mlockall): the kernel refuses what malloc_trim asks of it, and only the free end of "
    "the main "
    "heap can leave.";

// One live block at the top of a heap keeps all free pages under it.
std::optional<Finding> plug(const Facts&);
// Whole free pages that glibc keeps, where no single block is to blame.
std::optional<Finding> retained(const Facts&);
// Large blocks that the dynamic threshold brought into the heaps.
std::optional<Finding> dynamic_threshold(const Facts&);
// Many secondary arenas, little used.
std::optional<Finding> arena_growth(const Facts&);
// Free bytes on pages that also hold a live block.
std::optional<Finding> pinned(const Facts&);
// The free tops of secondary arenas, which no trim returns.
std::optional<Finding> secondary_tops(const Facts&);
// Pages without a live block that thread caches keep.
std::optional<Finding> thread_caches(const Facts&);
// Live bytes grow steadily to the end of the run.
std::optional<Finding> leak(const Facts&);
// A buffer grows by small steps through realloc, and is carried over again and again.
std::optional<Finding> realloc_growth(const Facts&);
// Most of RSS is not the allocator's.
std::optional<Finding> not_malloc(const Facts&);
// Stacks of threads are a good part of RSS.
std::optional<Finding> thread_stacks(const Facts&);
// Transparent huge pages that are mostly free.
std::optional<Finding> huge_pages(const Facts&);
// What recording itself takes.
std::optional<Finding> recorder(const Facts&);
// Threads that want arenas' locks at the same time.
std::optional<Finding> contention(const Facts&);
// So many mappings that page tables and scans of them cost.
std::optional<Finding> many_mappings(const Facts&);
// Of a JVM: memory of zlib's streams that nobody has ended yet.
std::optional<Finding> zip_streams(const Facts&);
// … direct buffers, which leave when a collection finds their owners.
std::optional<Finding> direct_buffers(const Facts&);
// … what its compilers hold at work.
std::optional<Finding> compiler_arenas(const Facts&);
// … more GC threads than CPUs.
std::optional<Finding> collector_threads(const Facts&);
// … a native library of the program's own that leaks.
std::optional<Finding> jni_leak(const Facts&);

inline constexpr std::optional<Finding> (*kVerdicts[])(const Facts&) = {
    plug,           retained,        dynamic_threshold, arena_growth, pinned,   secondary_tops, thread_caches, leak,
    realloc_growth, not_malloc,      thread_stacks,     huge_pages,   recorder, many_mappings,  contention,    zip_streams,
    direct_buffers, compiler_arenas, collector_threads, jni_leak,
};

// All that apply, most bytes first.
std::vector<Finding> judge(const Facts&);

// The verdicts of two moments as one list: of each kind those of the moment where it is larger, at a tie of `other`. Each
// says its moment.
std::vector<Finding> larger_of(std::vector<Finding> one, std::vector<Finding> other);

}  // namespace heapspy::findings
