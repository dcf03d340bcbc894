// What the threads of a JVM are for, by the names that HotSpot gives its own.
#pragma once
#include <string_view>

namespace heapspy::report {

// "gc", "compiler", "vm" (HotSpot's and the JDK's service threads), else "java". The name is the JVM's own, or the first 15
// bytes of it that the kernel has. Source: the names in HotSpot's gc/*, compiler/compileBroker.cpp, runtime/*.cpp, and of
// java.lang.ref, from JDK 8 to 25.
std::string_view jvm_role(std::string_view thread_name);

}  // namespace heapspy::report
