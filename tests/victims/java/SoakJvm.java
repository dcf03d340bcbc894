// What has broken tools that live inside a JVM, one after another; each prints the same whenever all goes well.
//   SoakJvm wait N        N children, each waited for (the thread "process reaper" has a small stack)
//   SoakJvm classes N     N times a class loader of its own, its classes used and dropped
//   SoakJvm overflow N    N StackOverflowErrors, each caught
//   SoakJvm memory N      N OutOfMemoryErrors, each caught
//   SoakJvm threads N     N threads with stacks of 144 KiB at once
//   SoakJvm virtual N     N virtual threads (JDK 21)
//   SoakJvm names N       N renamings in 4 threads
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.zip.Deflater;

public class SoakJvm {
    static int depth;

    static void fall() {
        depth++;
        Deflater deflater = depth % 1000 == 0 ? new Deflater() : null;
        fall();
        if (deflater != null) deflater.end();
    }

    static void run(String what, int n) throws Throwable {
        switch (what) {
            case "wait":
                for (int i = 0; i < n; i++)
                    if (new ProcessBuilder("/bin/true").start().waitFor() != 0) System.out.println("wrong exit status");
                break;
            case "classes":
                for (int i = 0; i < n; i++) {
                    ClassLoader loader = new ClassLoader(null) { };
                    Runnable proxy = (Runnable) Proxy.newProxyInstance(
                        new ClassLoader(SoakJvm.class.getClassLoader()) { }, new Class<?>[] {Runnable.class}, (p, m, a) -> null);
                    for (int k = 0; k < 50; k++) proxy.run();
                    if (loader.hashCode() == 0 && i % 100 == 0) System.gc();
                }
                break;
            case "overflow":
                for (int i = 0; i < n; i++) try {
                        depth = 0;
                        fall();
                    } catch (StackOverflowError expected) {
                        if (depth < 100) System.out.println("shallow: " + depth);
                    }
                break;
            case "memory":
                for (int i = 0; i < n; i++) try {
                        List<long[]> all = new ArrayList<>();
                        for (;;) all.add(new long[1 << 20]);
                    } catch (OutOfMemoryError expected) {
                        depth++;
                    }
                break;
            case "threads": {
                CountDownLatch started = new CountDownLatch(n), end = new CountDownLatch(1);
                List<Thread> all = new ArrayList<>();
                for (int i = 0; i < n; i++) {
                    Thread thread = new Thread(null, () -> {
                        new Deflater().end();
                        started.countDown();
                        try {
                            end.await();
                        } catch (InterruptedException e) {
                            System.out.println(e);
                        }
                    }, "one-of-very-many-threads-number-" + i, 144 << 10);
                    thread.start();
                    all.add(thread);
                }
                started.await();
                end.countDown();
                for (Thread thread : all) thread.join();
                break;
            }
            case "virtual": {
                List<Thread> all = new ArrayList<>();
                java.lang.reflect.Method start = Thread.class.getMethod("startVirtualThread", Runnable.class);
                for (int i = 0; i < n; i++)
                    all.add((Thread) start.invoke(null, (Runnable) () -> {
                        Deflater deflater = new Deflater();
                        Thread.yield();
                        deflater.end();
                    }));
                for (Thread thread : all) thread.join();
                break;
            }
            case "names": {
                List<Thread> all = new ArrayList<>();
                for (int t = 0; t < 4; t++) {
                    Thread thread = new Thread(() -> {
                        for (int i = 0; i < n; i++) Thread.currentThread().setName("named-for-the-time-number-" + i);
                    });
                    thread.start();
                    all.add(thread);
                }
                for (Thread thread : all) {
                    thread.setName("by-another");
                    thread.join();
                }
                break;
            }
            default: throw new IllegalArgumentException(what);
        }
    }

    public static void main(String[] arguments) throws Throwable {
        run(arguments[0], Integer.parseInt(arguments[1]));
        System.out.println("done " + arguments[0] + " " + arguments[1]);
    }
}
