/**
 * A dictionary in a native library, opened and closed for every request. close() frees the dictionary and forgets its words.
 *
 * <p>Right verdict: leak, at load_words in libdictionary.so, called by JniLeak.lookUp. No setting of the JVM or of malloc helps:
 * the library must free what it took.
 *
 * <p>usage: java -Djava.library.path=FOLDER_OF_LIBDICTIONARY -jar jni_leak.jar [REQUESTS]
 */
public class JniLeak {
  static native long open(String language);

  static native void close(long dictionary);

  static void lookUp(int request) {
    long dictionary = open("en-" + request);
    close(dictionary);
  }

  public static void main(String[] arguments) {
    System.loadLibrary("dictionary");
    int requests = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 30000;
    for (int i = 0; i < requests; i++) lookUp(i);
    System.out.println(requests + " requests");
  }
}
