// What verdicts about a JVM are made from: what its blocks are for, by the methods of Java's in their call stacks.
#pragma once
#include <string>

#include "analyzer/findings/facts.h"
#include "analyzer/model/heap_model.h"
#include "analyzer/report/report.h"
#include "analyzer/trace/reader.h"
#include "analyzer/trace/stack_table.h"

namespace heapspy::report {

// Of a report that add_java() has filled; nothing where that found no JVM.
void add_java_facts(findings::Facts&, const Report&, const model::Figures&, const model::Moment&, const trace::Reader&);
// Who called the innermost method (a native one): the program's own method that is innermost then, as text; where all are the
// JDK's the outermost of them. "": there are none.
std::string java_caller(const trace::Stack&, const trace::Reader&);

}  // namespace heapspy::report
