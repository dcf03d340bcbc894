import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

// One worker: opens a jar, reads the beginning of many of its entries with all streams open, then closes half of them in
// random order and leaves the other half to another worker. Deterministic but for that. Its result is the bytes read.
final class JarReader implements Callable<Long> {
  private static final int LEAST_STREAMS = 40;
  private static final int MORE_STREAMS = 200;

  private final int id;
  private final int rounds;
  private final List<Path> jars;
  private final LateClosers late;
  private final Random random;
  private final byte[] buffer = new byte[8192];

  JarReader(int id, int rounds, List<Path> jars, LateClosers late) {
    this.id = id;
    this.rounds = rounds;
    this.jars = jars;
    this.late = late;
    this.random = new Random(id);
  }

  @Override
  public Long call() throws IOException {
    long bytes = 0;
    for (int round = 0; round < rounds; round++) {
      bytes += readOneJar();
      late.closeWhatTheNextLeft(id);
    }
    return bytes;
  }

  private long readOneJar() throws IOException {
    long bytes = 0;
    ZipFile jar = new ZipFile(jars.get(random.nextInt(jars.size())).toFile());
    List<? extends ZipEntry> entries = Collections.list(jar.entries());
    List<InputStream> open = new ArrayList<>();
    int streams = LEAST_STREAMS + random.nextInt(MORE_STREAMS);
    for (int i = 0; i < streams; i++) {
      InputStream stream = jar.getInputStream(entries.get(random.nextInt(entries.size())));
      bytes += Math.max(0, stream.read(buffer));
      open.add(stream);
    }
    Collections.shuffle(open, random);
    int half = open.size() / 2;
    for (InputStream stream : open.subList(0, half)) stream.close();
    late.leave(id, jar, open.subList(half, open.size()));
    return bytes;
  }
}
