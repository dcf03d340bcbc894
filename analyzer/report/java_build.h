// What a trace says of a JVM: which of its libraries and threads ask for memory.
#pragma once
#include "analyzer/model/heap_model.h"
#include "analyzer/report/report.h"
#include "analyzer/trace/reader.h"
#include "analyzer/trace/stack_table.h"

namespace heapspy::report {

// Does nothing where no libjvm.so is in call stacks or mappings. After threads are in the report. `at`: nullptr, there is none.
void add_java(Report&, const model::Figures&, const model::Moment* at, const trace::Reader&);

// The path of the native library whose code asked for memory: the innermost of the stack that is no allocator's, no C library's
// and no loader's; zlib's is libzip's, where that has called it. "": there is none, or code made at run time.
std::string calling_library(const trace::Stack&, const trace::Reader&);
// The path of the native library whose function Java code called there. "": Java code called none, or libjvm itself asked.
std::string library_called_by_java(const trace::Stack&, const trace::Reader&);
// Of the JDK, by where libjvm.so lies.
bool is_jdk_library(const std::string& path, const trace::Reader&);

}  // namespace heapspy::report
