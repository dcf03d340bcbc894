/* A JVMTI agent that tells what the JVM says of its own stacks, for tests/process/java_stacks_test.cpp. Built where a JDK's
 * headers are: the tests' CMakeLists.txt. Options: INTERVAL,MOST,FILE.
 *
 * Of about every INTERVAL bytes of Java objects it asks for the allocating thread's stack, and then for a block of a size that
 * nobody else asks for: kFirst + the sample's number. FILE gets a line for each: the size, and the frames, innermost first, as
 * CLASS.METHOD(DESCRIPTOR)TYPE:LINE, with tabs between them. */
#include <jvmti.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kFirst = 40000000, kMostFrames = 1000, kNameBytes = 600 };
static FILE* file;
static int most, taken;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int within;

static int line_of(jvmtiEnv* tools, jmethodID method, jlocation location) {
  jint count = 0, line = 0;
  jlocation best = -1;
  jvmtiLineNumberEntry* table = NULL;
  if (location < 0 || (*tools)->GetLineNumberTable(tools, method, &count, &table)) return 0;
  for (jint i = 0; i < count; i++)
    if (table[i].start_location <= location && table[i].start_location >= best)
      best = table[i].start_location, line = table[i].line_number;
  (*tools)->Deallocate(tools, (unsigned char*)table);
  return line;
}

static void write_frame(jvmtiEnv* tools, JNIEnv* jni, jvmtiFrameInfo frame) {
  char *name = NULL, *descriptor = NULL, *type = NULL;
  jclass class = NULL;
  if ((*tools)->GetMethodName(tools, frame.method, &name, &descriptor, NULL) ||
      (*tools)->GetMethodDeclaringClass(tools, frame.method, &class) || (*tools)->GetClassSignature(tools, class, &type, NULL))
    abort();
  type[strlen(type) - 1] = 0; /* Lshop/Cart; */
  fprintf(file, "\t%s.%s%s:%d", type + 1, name, descriptor, line_of(tools, frame.method, frame.location));
  (*tools)->Deallocate(tools, (unsigned char*)name);
  (*tools)->Deallocate(tools, (unsigned char*)descriptor);
  (*tools)->Deallocate(tools, (unsigned char*)type);
  (*jni)->DeleteLocalRef(jni, class);
}

static void JNICALL object_allocated(jvmtiEnv* tools, JNIEnv* jni, jthread thread, jobject object, jclass class, jlong size) {
  (void)thread, (void)object, (void)class, (void)size;
  if (within) return;
  within = 1;
  pthread_mutex_lock(&lock);
  static jvmtiFrameInfo frames[kMostFrames];
  jint count = 0;
  if (taken < most && (*tools)->GetStackTrace(tools, NULL, 0, kMostFrames, frames, &count) == 0 && count > 0) {
    void* volatile block = malloc((size_t)(kFirst + taken));
    free(block);
    fprintf(file, "%d", kFirst + taken);
    for (jint i = 0; i < count; i++) write_frame(tools, jni, frames[i]);
    fputc('\n', file);
    fflush(file);
    taken++;
  }
  pthread_mutex_unlock(&lock);
  within = 0;
}

JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM* machine, char* options, void* reserved) {
  (void)reserved;
  jvmtiEnv* tools = NULL;
  int interval = 0, path = 0;
  if (sscanf(options, "%d,%d,%n", &interval, &most, &path) < 2 || !path || !(file = fopen(options + path, "w"))) return 1;
  if ((*machine)->GetEnv(machine, (void**)&tools, JVMTI_VERSION_1_2)) return 1;
  jvmtiCapabilities wanted;
  memset(&wanted, 0, sizeof wanted);
  wanted.can_generate_sampled_object_alloc_events = 1;
  wanted.can_get_line_numbers = 1;
  jvmtiEventCallbacks callbacks;
  memset(&callbacks, 0, sizeof callbacks);
  callbacks.SampledObjectAlloc = object_allocated;
  return (*tools)->AddCapabilities(tools, &wanted) || (*tools)->SetHeapSamplingInterval(tools, interval) ||
         (*tools)->SetEventCallbacks(tools, &callbacks, sizeof callbacks) ||
         (*tools)->SetEventNotificationMode(tools, JVMTI_ENABLE, JVMTI_EVENT_SAMPLED_OBJECT_ALLOC, NULL);
}
