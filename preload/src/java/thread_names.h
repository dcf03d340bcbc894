// What Java calls its threads, their groups and whether they are daemons, by the kernel's thread id: the JVM tells the kernel
// the first 15 bytes only.
//
// No thread of ours is attached, and nothing polls. libjava calls the JVM through exported functions, so two of them come past
// us (hooks_java.cpp) on Java's own threads, in native code, where JNI and JVMTI may be called: the first class that is looked
// for once the JVM is up is when the threads that are there are asked for, and from then on the JVM tells of each new thread on
// that thread itself (JVMTI ThreadStart; no capability is asked for). What a JVM cannot do is left out: the kernel's names
// stay.
#pragma once
#include "jvm_interface.h"

namespace heapspy::java {

// Of libjvm: the function that we stand in front of.
const void* next_function(const char* name);

// On a Java thread, in a native method. Cheap once it has come to a result.
void begin_if_possible(Environment* environment);
// `thread` (a java.lang.Thread) has a new name.
void renamed(Environment* environment, Object thread);

}  // namespace heapspy::java
