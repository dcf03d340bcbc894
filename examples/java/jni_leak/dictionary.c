/* The native half of JniLeak.java: dictionary_close leaks the words. */
#include <jni.h>
#include <stdlib.h>
#include <string.h>

struct dictionary {
  char language[16];
  char* words;
};

static char* load_words(void) {
  char* words = malloc(4000);
  if (words) memset(words, 'w', 4000);
  return words;
}

JNIEXPORT jlong JNICALL Java_JniLeak_open(JNIEnv* env, jclass type, jstring language) {
  (void)type;
  struct dictionary* made = calloc(1, sizeof *made);
  const char* text = (*env)->GetStringUTFChars(env, language, NULL);
  if (made && text) {
    strncpy(made->language, text, sizeof made->language - 1);
    made->words = load_words();
  }
  if (text) (*env)->ReleaseStringUTFChars(env, language, text);
  return (jlong)made;
}

JNIEXPORT void JNICALL Java_JniLeak_close(JNIEnv* env, jclass type, jlong dictionary) {
  (void)env, (void)type;
  free((void*)dictionary); /* and not its words */
}
