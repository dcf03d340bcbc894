import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.zip.ZipFile;

// What each worker has left open last, for its neighbour to close. A jar is closed after its streams.
final class LateClosers {
  private static final class Left {
    final ZipFile jar;
    final List<InputStream> streams;

    Left(ZipFile jar, List<InputStream> streams) {
      this.jar = jar;
      this.streams = streams;
    }

    void close() throws IOException {
      for (InputStream stream : streams) stream.close();
      jar.close();
    }
  }

  private final AtomicReferenceArray<Left> leftBy;

  LateClosers(int workers) {
    leftBy = new AtomicReferenceArray<>(workers);
  }

  // What `worker` left before and nobody has closed yet, it closes now: at most one jar a worker stays open.
  void leave(int worker, ZipFile jar, List<InputStream> streams) throws IOException {
    close(leftBy.getAndSet(worker, new Left(jar, new ArrayList<>(streams))));
  }

  void closeWhatTheNextLeft(int worker) throws IOException {
    close(leftBy.getAndSet((worker + 1) % leftBy.length(), null));
  }

  void closeAll() throws IOException {
    for (int i = 0; i < leftBy.length(); i++) close(leftBy.getAndSet(i, null));
  }

  private static void close(Left left) throws IOException {
    if (left != null) left.close();
  }
}
