// A JVM at work: threads that deflate and inflate (native memory), and 12 child processes, started through the JVM's own launcher
// (it closes every descriptor) while they do. Prints the same whenever all goes well.
import java.util.ArrayList;
import java.util.List;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

public class Spawns {
  static int roundTrip(int seed) throws Exception {
    byte[] text = new byte[20000];
    for (int i = 0; i < text.length; i++) text[i] = (byte) (i * seed % 61);
    byte[] packed = new byte[30000], back = new byte[30000];
    Deflater deflater = new Deflater();
    deflater.setInput(text);
    deflater.finish();
    int length = deflater.deflate(packed);
    deflater.end();
    Inflater inflater = new Inflater();
    inflater.setInput(packed, 0, length);
    int result = inflater.inflate(back);
    inflater.end();
    return result;
  }

  public static void main(String[] arguments) throws Exception {
    List<Thread> threads = new ArrayList<>();
    for (int t = 0; t < 8; t++) {
      final int number = t;
      Thread thread = new Thread(() -> {
        try {
          int sum = 0;
          for (int i = 0; i < 40; i++) sum += roundTrip(number + i + 1);
          if (sum != 40 * 20000) System.out.println("wrong sum " + sum);
        } catch (Exception error) {
          System.out.println(error);
        }
      }, "deflating-thread-number-" + t);
      thread.start();
      threads.add(thread);
    }
    for (int i = 0; i < 12; i++) {
      Process child = new ProcessBuilder(arguments[0], "child " + i).start();
      String said = new String(child.getInputStream().readAllBytes());
      System.out.print(child.waitFor() + " " + said);
    }
    for (Thread thread : threads) thread.join();
    System.out.println("done");
  }
}
