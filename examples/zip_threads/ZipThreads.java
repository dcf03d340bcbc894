// The right verdict: memory retained in arenas that the threads zip-worker-1 … zip-worker-64 grew; not a leak, and not
// the Java heap.
//
// Threads read many jars at once, as class loading, resource bundles and office documents do. Each open stream holds about
// 40 KB of zlib's memory outside the Java heap, in the arena of the thread that opened it; many streams are open at a time,
// and half of them are closed late and by another thread. Afterwards everything is closed and collected, live memory is
// back at its base, and RSS stays high: every arena keeps what its largest burst needed.
//
// `heapspy trim PID` returns most of it. MALLOC_ARENA_MAX=1 and jemalloc lower the peak, each at a price that
// `heapspy compare` tells.
//
// java -Xmx512m -jar zip_threads.jar [THREADS] [ROUNDS] [--hold SECONDS] [--wait]
//   THREADS  workers (default 64)          ROUNDS  batches of streams that each opens (default 12)
//   --hold   seconds to stay at the end    --wait  stay at the end until a line comes on stdin
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

public final class ZipThreads {
  private int threads = 64;
  private int rounds = 12;
  private long holdSeconds = 0;
  private boolean wait = false;

  public static void main(String[] arguments) throws Exception {
    try {
      new ZipThreads(arguments).run();
    } catch (Exception failure) {  // an OutOfMemoryError in a worker, most likely: the other workers would keep the JVM alive
      failure.printStackTrace();
      System.exit(1);
    }
  }

  private ZipThreads(String[] arguments) {
    int plain = 0;
    for (int i = 0; i < arguments.length; i++) {
      if (arguments[i].equals("--wait")) {
        wait = true;
      } else if (arguments[i].equals("--hold") && i + 1 < arguments.length) {
        holdSeconds = Long.parseLong(arguments[++i]);
      } else if (plain == 0) {
        threads = Integer.parseInt(arguments[i]);
        plain++;
      } else {
        rounds = Integer.parseInt(arguments[i]);
      }
    }
  }

  private void run() throws Exception {
    System.out.println("pid " + ProcessHandle.current().pid() + ", " + threads + " threads, " + rounds + " rounds");
    ResidentMemory.print("at the start");
    try (SampleJars jars = new SampleJars()) {
      ResidentMemory.print("jars made");
      ExecutorService pool = Executors.newFixedThreadPool(threads, named());
      long start = System.nanoTime();
      long bytes = work(pool, jars.paths());
      double seconds = (System.nanoTime() - start) / 1e9;
      ResidentMemory.print(String.format("%d MB inflated in %.1f s", bytes / 1_000_000, seconds));
      collect();
      ResidentMemory.print("all closed and collected");
      hold();
      pool.shutdown();
      pool.awaitTermination(10, TimeUnit.SECONDS);
    }
  }

  // The names are what a report should show; the JVM hands their first 15 characters to the kernel.
  private static java.util.concurrent.ThreadFactory named() {
    AtomicInteger next = new AtomicInteger();
    return task -> new Thread(task, "zip-worker-" + next.incrementAndGet());
  }

  private long work(ExecutorService pool, List<Path> jars) throws Exception {
    LateClosers late = new LateClosers(threads);
    List<Future<Long>> results = new ArrayList<>();
    for (int i = 0; i < threads; i++) results.add(pool.submit(new JarReader(i, rounds, jars, late)));
    long bytes = 0;
    for (Future<Long> result : results) bytes += result.get();
    late.closeAll();
    return bytes;
  }

  // Cleaners of java.util.zip run after a collection has found their objects, in a thread of their own.
  private static void collect() throws InterruptedException {
    for (int i = 0; i < 3; i++) {
      System.gc();
      Thread.sleep(200);
    }
  }

  private void hold() throws IOException, InterruptedException {
    if (holdSeconds > 0) {
      System.out.println("holds for " + holdSeconds + " s");
      Thread.sleep(holdSeconds * 1000);
    }
    if (wait) {
      System.out.println("waits for a line on stdin");
      InputStream in = System.in;
      for (int read = in.read(); read >= 0 && read != '\n'; read = in.read()) {
        // nothing: only the end of the line matters
      }
    }
    if (holdSeconds > 0 || wait) ResidentMemory.print("after the stop");
  }
}
