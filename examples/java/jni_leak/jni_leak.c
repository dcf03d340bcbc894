// The native half of JniLeak.java.
#include <jni.h>
#include <stdlib.h>

// Where Java's bytes are copied to.
__attribute__((noinline)) static jbyte* copy_of(JNIEnv* environment, jbyteArray bytes, jsize count) {
  jbyte* copy = malloc((size_t)count);
  if (copy) (*environment)->GetByteArrayRegion(environment, bytes, 0, count, copy);
  return copy;
}

JNIEXPORT jlong JNICALL Java_JniLeak_checksum(JNIEnv* environment, jclass type, jbyteArray bytes, jboolean forget) {
  (void)type;
  const jsize count = (*environment)->GetArrayLength(environment, bytes);
  jbyte* copy = copy_of(environment, bytes, count);
  if (!copy) return 0;
  jlong sum = 0;
  for (jsize i = 0; i < count; i++) sum += copy[i];
  if (!forget) free(copy);  // the fault: not always
  return sum;
}
