// The right verdict: a leak, in the JNI library jni_leak. Its function takes a copy of what Java hands to it and, of one request
// in four, forgets to free it: live memory grows with the time, outside of the Java heap and unknown to the JVM's own books
// (NMT). No setting of the JVM or of malloc helps.
//
// With --without, every copy is freed: no verdict.
//
// java -jar jni_leak.jar [REQUESTS] [--without] [--wait]
//   REQUESTS  per round of 20 ms (default 200), of 2 KiB each       --wait  stay at the end until a line comes on stdin
// The library lies beside the jar: libjni_leak.so.
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Path;

public final class JniLeak {
  private static final int BYTES = 2048;
  private static final int FORGETS_ONE_IN = 4;
  // A run is looked at in eighths, and its first is the JVM's start.
  private static final long LEAST_MILLISECONDS = 1600, TIMES_THE_START = 8;

  private JniLeak() {}

  // The sum of the bytes; keeps a copy of them.
  static native long checksum(byte[] bytes, boolean forget);

  public static void main(String[] arguments) throws Exception {
    int requests = 200;
    boolean without = false, wait = false;
    for (String argument : arguments) {
      if (argument.equals("--without")) without = true;
      else if (argument.equals("--wait")) wait = true;
      else requests = Integer.parseInt(argument);
    }
    Path jar = Path.of(JniLeak.class.getProtectionDomain().getCodeSource().getLocation().toURI());
    System.load(jar.resolveSibling("libjni_leak.so").toString());
    System.out.println("pid " + ProcessHandle.current().pid() + ", " + requests + " requests a round");
    ResidentMemory.print("at the start");
    long started = ProcessHandle.current().info().startInstant().get().toEpochMilli();
    long run = Math.max(LEAST_MILLISECONDS, TIMES_THE_START * (System.currentTimeMillis() - started));
    long end = System.currentTimeMillis() + run, sum = 0;
    while (System.currentTimeMillis() < end) {
      for (int i = 0; i < requests; i++) sum += handleRequest(i, without);
      Thread.sleep(20);
    }
    ResidentMemory.print("at the end");
    if (wait) waitForLine();
    if (sum == 42) System.out.println();  // so that nothing is optimised away
  }

  private static long handleRequest(int number, boolean without) {
    byte[] request = new byte[BYTES];
    request[number % BYTES] = 1;
    return checksum(request, !without && number % FORGETS_ONE_IN == 0);
  }

  private static void waitForLine() throws IOException {
    System.out.println("waits for a line on stdin");
    InputStream in = System.in;
    for (int read = in.read(); read >= 0 && read != '\n'; read = in.read()) {
      // nothing: only the end of the line matters
    }
  }
}
