// The few functions of JNI and JVMTI that the recorder calls, without a JDK's headers.
//
// Source: both interfaces are tables of functions whose places are part of their specifications: the Java Native Interface
// specification, chapter 4 ("Interface Function Table" with an index for each function), and the JVM Tool Interface
// specification, "Function Index" by number (a table of which the first place is reserved: number n stands at place n - 1).
// They are the same in every version from JDK 1.4 and 5 on.
#pragma once
#include <cstddef>
#include <cstdint>

namespace heapspy::java {

struct Environment {  // JNIEnv
  void* const* functions;
};
struct Machine {  // JavaVM
  void* const* functions;
};
struct Tools {  // jvmtiEnv
  void* const* functions;
};
using Object = void*;  // a local reference, valid in the native method or callback that has it

struct ThreadInfo {  // jvmtiThreadInfo
  char* name;        // modified UTF-8; to be deallocated
  int32_t priority;
  uint8_t is_daemon;
  Object group;
  Object loader;
};
struct ThreadGroupInfo {  // jvmtiThreadGroupInfo
  Object parent;
  char* name;  // as that of a thread
  int32_t most_priority;
  uint8_t is_daemon;
};
namespace jni {
inline constexpr size_t kExceptionClear = 17, kDeleteLocalRef = 23, kGetObjectClass = 31, kGetFieldID = 94, kGetLongField = 101,
                        kGetJavaVM = 219, kGetEnv = 6;
}
namespace jvmti {
inline constexpr size_t kSetEventNotificationMode = 2 - 1, kGetAllThreads = 4 - 1, kGetThreadInfo = 9 - 1,
                        kGetThreadGroupInfo = 14 - 1, kGetCurrentThread = 18 - 1, kDeallocate = 47 - 1,
                        kSetEventCallbacks = 122 - 1;
inline constexpr int32_t kVersion = 0x30010200;  // JVMTI 1.2: JDK 6
inline constexpr int32_t kThreadStart = 52;      // the event; its callback stands at place 2 of jvmtiEventCallbacks
inline constexpr size_t kThreadStartCallback = 2;
}  // namespace jvmti

// `where` has it at `place`.
template <class Result, class Where, class... Arguments>
Result call(Where* where, size_t place, Arguments... arguments) {
  return reinterpret_cast<Result (*)(Where*, Arguments...)>(where->functions[place])(where, arguments...);
}

}  // namespace heapspy::java
