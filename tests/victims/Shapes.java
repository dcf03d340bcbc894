// Allocates objects from every shape of Java stack that a program of some size has: interpreted and compiled, inlined, recursive, by
// reflection, lambdas, streams, method handles, interfaces with many implementations, exceptions, class initialisers, threads.
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.IntFunction;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

public class Shapes {
    interface Shape {
        Object grow(int by);
    }
    static class Row implements Shape {
        public Object grow(int by) {
            return new int[by % 50 + 1];
        }
    }
    static class Tree implements Shape {
        public Object grow(int by) {
            return by > 5 ? new Object[] {grow(by / 2), grow(by / 3)} : new long[3];
        }
    }
    static class Leaf implements Shape {
        public Object grow(int by) {
            return small(by);
        }
        private static Object small(int by) {
            return tiny(by);
        }
        private static Object tiny(int by) {
            StringBuilder text = new StringBuilder();
            for (int i = 0; i < by % 7; i++) text.append(i);
            return text.toString();
        }
    }
    static class Late {
        static final Object[] made = make();
        static Object[] make() {
            Object[] all = new Object[2000];
            for (int i = 0; i < all.length; i++) all[i] = new char[i % 100];
            return all;
        }
    }

    static Object fail(int depth) {
        if (depth > 0) return fail(depth - 1);
        throw new IllegalStateException("at " + depth);
    }

    public static Object reflected(Integer by) {
        return new byte[by % 300];
    }

    static synchronized Object guarded(int by) {
        return List.of(by, by + 1).toString();
    }

    static long round(int turn) throws Throwable {
        long sum = 0;
        Shape[] shapes = {new Row(), new Tree(), new Leaf()};
        for (int i = 0; i < 40; i++) sum += shapes[i % 3].grow(turn + i).hashCode();
        IntFunction<Object> lambda = i -> new Object[i % 9];
        for (int i = 0; i < 20; i++) sum += lambda.apply(i).hashCode();
        Map<Integer, List<String>> groups =
            IntStream.range(0, 30).mapToObj(i -> "n" + i).collect(Collectors.groupingBy(String::length));
        sum += groups.size();
        List<String> words = new ArrayList<>(new HashMap<>(Map.of("a", 1, "b", 2)).keySet());
        words.sort(Comparator.comparing(word -> word + turn));
        try {
            fail(turn % 20);
        } catch (IllegalStateException expected) {
            sum += expected.getStackTrace().length;
        }
        sum += Shapes.class.getMethod("reflected", Integer.class).invoke(null, turn).hashCode();
        MethodHandle handle = MethodHandles.lookup().findStatic(
            Shapes.class, "reflected", MethodType.methodType(Object.class, Integer.class));
        sum += ((Object) handle.invoke((Integer) turn)).hashCode();
        return sum + guarded(turn).hashCode();
    }

    public static void main(String[] arguments) throws Throwable {
        int turns = Integer.parseInt(arguments[0]);
        Thread other = new Thread(() -> {
            try {
                for (int i = 0; i < turns; i++) round(i);
            } catch (Throwable error) {
                System.out.println(error);
            }
        }, "a-thread-with-a-name-that-no-kernel-keeps");
        other.start();
        for (int i = 0; i < turns; i++) round(i);
        other.join();
        Thread renamed = new Thread(new ThreadGroup("shapes"), () -> {
            Thread.currentThread().setName("named-again-after-it-has-begun");
        }, "before");
        renamed.setDaemon(true);
        renamed.start();
        renamed.join();
        System.out.println("done " + Late.made.length);
    }
}
