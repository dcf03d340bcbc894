import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

// A busy JVM: threads that compress and expand (zlib allocates by malloc), collect garbage and run into null (HotSpot turns the
// SIGSEGV into an exception), and look whether what comes out is what went in. Until its input ends.
final class Deflates {
  private static final AtomicLong rounds = new AtomicLong(), wrong = new AtomicLong();
  private static volatile boolean over;

  private static void work(int number) {
    Random random = new Random(number);
    byte[] original = new byte[40_000], packed = new byte[60_000], again = new byte[40_000];
    int[] nothing = null;
    while (!over) {
      for (int i = 0; i < original.length; i++) original[i] = (byte) random.nextInt(16);
      Deflater deflater = new Deflater(1 + random.nextInt(9));
      deflater.setInput(original);
      deflater.finish();
      int bytes = deflater.deflate(packed);
      deflater.end();
      try {
        Inflater inflater = new Inflater();
        inflater.setInput(packed, 0, bytes);
        inflater.inflate(again);
        inflater.end();
        if (!Arrays.equals(original, again)) wrong.incrementAndGet();
        if (nothing.length > 0) wrong.incrementAndGet();
      } catch (NullPointerException expected) {
        rounds.incrementAndGet();
      } catch (Exception unexpected) {
        wrong.incrementAndGet();
      }
    }
  }

  public static void main(String[] arguments) throws Exception {
    for (int i = 0; i < 4; i++) {
      int number = i;
      Thread thread = new Thread(() -> work(number));
      thread.setDaemon(true);
      thread.start();
    }
    System.out.println("ready");
    while (System.in.read() >= 0) {}
    over = true;
    System.out.println("rounds " + rounds + ", wrong " + wrong);
    System.exit(wrong.get() == 0 ? 0 : 1);
  }
}
