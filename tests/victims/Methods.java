// Allocates native memory from known methods, all of them by the interpreter (-Xint) or, after many turns, by compiled code.
import java.lang.reflect.Field;
import java.util.zip.Inflater;
import sun.misc.Unsafe;

public class Methods {
    static final int KEPT = 300;
    static Unsafe unsafe;
    static final Inflater[] kept = new Inflater[KEPT];

    // Sizes that nothing else asks for.
    static long ask(int i) {
        return unsafe.allocateMemory(7777777);
    }

    static long askDeeply(int depth, int i) {
        return depth > 0 ? askDeeply(depth - 1, i) : ask(i);
    }

    static void open(int i) {
        kept[i] = new Inflater(true);
    }

    public static void main(String[] arguments) throws Exception {
        Field field = Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        unsafe = (Unsafe) field.get(null);
        Thread.currentThread().setName("a-name-longer-than-fifteen-bytes");
        int turns = Integer.parseInt(arguments[0]);
        for (int i = 0; i < turns; i++) unsafe.freeMemory(askDeeply(3, i));
        for (int i = 0; i < KEPT; i++) open(i);
        System.out.println("asked " + turns);
    }
}
