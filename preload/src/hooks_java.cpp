// What libjava asks of the JVM and tells of threads (java/thread_names.h). jvm.h of OpenJDK has both since JDK 8; in a process
// without a JVM nobody calls them.
#include "hot.h"
#include "java/thread_names.h"

using namespace heapspy;

HEAPSPY_EXPORT void* JVM_FindLoadedClass(java::Environment* environment, void* loader, void* name) {
  static void* (*next)(java::Environment*, void*, void*);
  if (!next) next = reinterpret_cast<decltype(next)>(const_cast<void*>(java::next_function("JVM_FindLoadedClass")));
  java::begin_if_possible(environment);
  return next ? next(environment, loader, name) : nullptr;
}

HEAPSPY_EXPORT void JVM_SetNativeThreadName(java::Environment* environment, void* thread, void* name) {
  static void (*next)(java::Environment*, void*, void*);
  if (!next) next = reinterpret_cast<decltype(next)>(const_cast<void*>(java::next_function("JVM_SetNativeThreadName")));
  if (next) next(environment, thread, name);
  java::renamed(environment, thread);
}
