// The right verdict: direct buffers. Each is a block of malloc's outside of the Java heap that a small object in it owns, and it
// leaves when a collection finds that object unreachable. Here every request makes a buffer, uses it once and drops it; the
// Java heap hardly grows by that, so no collection comes, and RSS grows to twice -Xmx before the JVM looks.
//
// -XX:MaxDirectMemorySize makes it look earlier. With --without, each thread keeps one buffer and uses it again: no verdict.
//
// java -Xmx512m -jar direct_buffers.jar [BUFFERS] [KIB] [--without] [--wait]
//   BUFFERS  how many are made (default 256)         KIB     size of each (default 1024)
//   --wait   stay at the end until a line comes on stdin
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;

public final class DirectBuffers {
  private static final int FIRST = 4;  // of as many parts that a collection takes away: as it should be

  private final int size;
  private final boolean without;
  private ByteBuffer kept;
  private long sum;

  private DirectBuffers(int size, boolean without) {
    this.size = size;
    this.without = without;
  }

  public static void main(String[] arguments) throws Exception {
    int[] numbers = {256, 1024};
    int plain = 0;
    boolean without = false, wait = false;
    for (String argument : arguments) {
      if (argument.equals("--without")) without = true;
      else if (argument.equals("--wait")) wait = true;
      else numbers[plain++] = Integer.parseInt(argument);
    }
    System.out.println("pid " + ProcessHandle.current().pid() + ", " + numbers[0] + " buffers of " + numbers[1] + " KiB");
    DirectBuffers program = new DirectBuffers(numbers[1] * 1024, without);
    ResidentMemory.print("at the start");
    for (int i = 0; i < numbers[0] / FIRST; i++) program.handleRequest(i);
    System.gc();
    Thread.sleep(200);
    ResidentMemory.print("a quarter, and collected");
    for (int i = 0; i < numbers[0]; i++) program.handleRequest(i);
    ResidentMemory.print("all of them, not collected");
    if (wait) waitForLine();
    if (program.sum == 42) System.out.println();  // so that nothing is optimised away
  }

  private void handleRequest(int number) {
    ByteBuffer buffer = takeBuffer();
    for (int at = 0; at < size; at += 512) buffer.put(at, (byte) number);
    sum += buffer.get(size / 2);
  }

  private ByteBuffer takeBuffer() {
    if (!without) return ByteBuffer.allocateDirect(size);
    if (kept == null) kept = ByteBuffer.allocateDirect(size);
    return kept;
  }

  private static void waitForLine() throws IOException {
    System.out.println("waits for a line on stdin");
    InputStream in = System.in;
    for (int read = in.read(); read >= 0 && read != '\n'; read = in.read()) {
      // nothing: only the end of the line matters
    }
  }
}
