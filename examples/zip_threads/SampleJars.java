import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.zip.Deflater;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;

// Jars to read, in a temporary folder that close() removes. The same on every run; they compress about as well as classes.
final class SampleJars implements AutoCloseable {
  private static final int JARS = 6;
  private static final int ENTRIES = 400;
  private static final int LEAST_BYTES = 2_000;
  private static final int MORE_BYTES = 4_000;

  private final Path folder;
  private final List<Path> paths = new ArrayList<>();

  SampleJars() throws IOException {
    folder = Files.createTempDirectory("zip_threads");
    Random random = new Random(42);
    for (int i = 0; i < JARS; i++) {
      Path path = folder.resolve("sample-" + i + ".jar");
      paths.add(path);
      try (OutputStream file = Files.newOutputStream(path)) {
        write(file, random);
      }
    }
  }

  List<Path> paths() {
    return paths;
  }

  @Override
  public void close() throws IOException {
    for (Path path : paths) Files.deleteIfExists(path);
    Files.deleteIfExists(folder);
  }

  private static void write(OutputStream file, Random random) throws IOException {
    ZipOutputStream jar = new ZipOutputStream(file);
    jar.setLevel(Deflater.BEST_SPEED);
    for (int i = 0; i < ENTRIES; i++) {
      jar.putNextEntry(new ZipEntry("entry/" + i));
      jar.write(content(random, LEAST_BYTES + random.nextInt(MORE_BYTES)));
      jar.closeEntry();
    }
    jar.finish();
  }

  // Words of random letters from a small alphabet: neither constant nor incompressible.
  private static byte[] content(Random random, int length) {
    byte[] bytes = new byte[length];
    for (int i = 0; i < length; i++) bytes[i] = (byte) ('a' + random.nextInt(16));
    return bytes;
  }
}
