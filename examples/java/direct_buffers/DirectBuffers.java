import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;

/**
 * A server of messages that takes a direct buffer for each and drops it. The Java heap sees a few bytes for each buffer, so hardly
 * ever collects; until then every buffer keeps its native memory.
 *
 * <p>Right verdict: leak, by a call stack that names Bits, DirectByteBuffer and Messages.receive. The cure is not an allocator's:
 * reuse the buffers, or limit them (-XX:MaxDirectMemorySize=64m makes the JVM collect when they reach it).
 *
 * <p>usage: java -jar direct_buffers.jar [MESSAGES] [--collect]      --collect: a collection every 100 messages, and no leak
 */
public class DirectBuffers {
  static class Messages {
    final Deque<byte[]> handled = new ArrayDeque<>();

    ByteBuffer receive(int number) {
      ByteBuffer buffer = ByteBuffer.allocateDirect(100_000 + number % 1000);
      while (buffer.hasRemaining()) buffer.put((byte) number);
      return buffer;
    }

    void handle(int number) {
      ByteBuffer message = receive(number);
      byte[] head = new byte[64];
      message.flip();
      message.get(head);
      handled.add(head);
      if (handled.size() > 100) handled.remove();
    }
  }

  public static void main(String[] arguments) throws Exception {
    int messages = 3000;
    boolean collect = false;
    for (String each : arguments)
      if (each.equals("--collect")) collect = true;
      else messages = Integer.parseInt(each);
    Messages server = new Messages();
    print("begun");
    for (int i = 0; i < messages; i++) {
      server.handle(i);
      if (collect && i % 100 == 0) System.gc();
    }
    print(messages + " messages");
  }

  static void print(String moment) throws Exception {
    for (String line : Files.readAllLines(Path.of("/proc/self/status")))
      if (line.startsWith("VmRSS"))
        System.out.printf("%-16s RSS %d MB%n", moment, Long.parseLong(line.replaceAll("\\D", "")) / 1024);
  }
}
