import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

// VmRSS and VmHWM of this process, as /proc/self/status has them.
final class ResidentMemory {
  private ResidentMemory() {}

  static void print(String stage) throws IOException {
    System.out.printf("%-32s RSS %6.1f MiB   highest so far %6.1f MiB%n", stage, mebibytes("VmRSS:"), mebibytes("VmHWM:"));
  }

  private static double mebibytes(String field) throws IOException {
    for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
      if (line.startsWith(field)) return Long.parseLong(line.replaceAll("\\D", "")) / 1024.0;
    }
    throw new IOException("/proc/self/status has no " + field);
  }
}
