"""The programs of scripts/check-replay, and how they are recorded and run for real."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

MIB = 1 << 20
SOURCE = "#include <regex>\n#include <map>\n#include <string>\n#include <functional>\n#include <iostream>\n" + "".join(
    f"template <int N> struct A{i} {{ std::map<std::string, std::function<int(int)>> m; std::regex r{{\"a*b{i}\"}};\n"
    f"  int f(int x) {{ return std::regex_match(std::to_string(x), r) + (int)m.size() + N; }} }};\nint g{i}(int x) {{ return A{i}<{i}>().f(x); }}\n"
    for i in range(8))
JSON = """
import json, random
random.seed(1)
document = {"k%d" % i: [random.random() for _ in range(20)] + [{"a": str(i), "b": None}] for i in range(20000)}
for _ in range(3):
    json.loads(json.dumps(document))
"""
# A thread that calls malloc_trim; with TRIM_FORKED in the processes that fork begins (a server's backends), else in each program.
TRIMMER = """
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
static struct timespec every;
static void* trim(void* none) {
  for (;;) nanosleep(&every, 0), malloc_trim(0);
  return none;
}
static void begin(void) {
  pthread_t thread;
  sigset_t all, before;
  sigfillset(&all), pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_create(&thread, 0, trim, 0);
  pthread_sigmask(SIG_SETMASK, &before, 0);
}
__attribute__((constructor)) static void prepare(void) {
  const double seconds = atof(getenv("TRIM_EVERY"));
  every.tv_sec = (time_t)seconds, every.tv_nsec = (long)((seconds - (double)every.tv_sec) * 1e9);
  if (getenv("TRIM_FORKED")) pthread_atfork(0, 0, begin);
  else begin();
}
"""
# As a program exits: how many bytes of its program and library files are anonymous (pages written to, .bss), as lines of COPIED_TO. A
# JVM's class archive is in the ledger.
COPIED = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((destructor)) static void say(void) {
  static char line[8192];
  unsigned long start, end, before = 0, inode, copied = 0, kib;
  int of_file = 0, file_before = 0, to = open(getenv("COPIED_TO"), O_WRONLY | O_APPEND);
  FILE* smaps = fopen("/proc/self/smaps", "r");
  if (to < 0 || !smaps) return;
  while (fgets(line, sizeof line, smaps)) {
    if (sscanf(line, "%lx-%lx %*s %*s %*s %lu", &start, &end, &inode) == 3) {
      of_file = inode ? !strstr(line, ".jsa") : file_before && start == before && !strchr(line, '[');
      file_before = inode && of_file;
      before = end;
    } else if (of_file && sscanf(line, "Anonymous: %lu kB", &kib) == 1) {
      copied += kib;
    }
  }
  dprintf(to, "%lu\\n", copied * 1024);
}
"""
# Debian's redis-server is linked with jemalloc: this puts the C library's allocator before it, unless another is preloaded.
C_LIBRARY = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void*, size_t), *__libc_memalign(size_t, size_t);
void __libc_free(void*);
static size_t (*usable)(void*);
__attribute__((constructor)) static void begin(void) {
  usable = (size_t(*)(void*))dlsym(dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD), "malloc_usable_size");
}
void* malloc(size_t n) { return __libc_malloc(n); }
void free(void* p) { __libc_free(p); }
void* calloc(size_t n, size_t s) { return __libc_calloc(n, s); }
void* realloc(void* p, size_t n) { return __libc_realloc(p, n); }
void* memalign(size_t a, size_t n) { return __libc_memalign(a, n); }
void* aligned_alloc(size_t a, size_t n) { return __libc_memalign(a, n); }
int posix_memalign(void** p, size_t a, size_t n) { return (*p = __libc_memalign(a, n)) ? 0 : ENOMEM; }
size_t malloc_usable_size(void* p) { return usable && p ? usable(p) : 0; }
"""
SORT = "SELECT count(*) FROM (SELECT filler, aid FROM pgbench_accounts ORDER BY filler, aid DESC OFFSET 1) s;\n"


def fail(text):
    sys.exit(f"check-replay: {text}")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Bench:
    def __init__(self, build, folder, repeat):
        self.build, self.folder, self.repeat = build, pathlib.Path(folder), repeat
        self.heapspy, self.library = build / "bin/heapspy", build / "lib/libheapspy.so"
        if not self.heapspy.exists():
            fail(f"{self.heapspy} is not there: build first, or give --build FOLDER")

    def run(self, command, environment=None):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                              env={**os.environ, **(environment or {})}, cwd=self.folder)
        if done.returncode != 0:
            fail(f"{' '.join(str(word) for word in command)[:200]}: status {done.returncode}: {done.stderr[-400:]}")
        return done.stdout

    def built(self, name, source):
        """A library of this source, in the folder."""
        library = self.folder / f"lib{name}.so"
        if not library.exists():
            file = self.folder / f"{name}.c"
            file.write_text(source, encoding="ascii")
            self.run(["cc", "-shared", "-fPIC", "-O1", "-fno-builtin", "-o", library, file, "-ldl", "-lpthread"])
        return library

    def programs(self, wanted):
        """Those that are here."""
        here, bench = self.build / "examples", self.build / "bench"
        source = self.folder / "source.cpp"
        source.write_text(SOURCE, encoding="ascii")
        compiler = shutil.which("g++") and subprocess.run(["g++", "-print-prog-name=cc1plus"], capture_output=True,
                                                          text=True, check=False).stdout.strip()
        found = [
            Program("fragmentation", [here / "fragmentation", 200000]),
            Program("arena_growth", [here / "arena_growth", 24, 8]),
            Program("pinned_main_heap", [here / "pinned_main_heap"]),
            Program("retained", [here / "retained"]),
            Program("trim_again", [here / "trim_again"]),
            Program("contention", [here / "contention"]),
            Program("steady_leak", [here / "steady_leak"]),
            Program("sawtooth", [here / "steady_leak", "--without"]),
            Program("realloc_growth", [here / "realloc_growth", 8]),
            Program("prefork", [here / "prefork", 32, 4]),
            Stacks("thread_stacks", [here / "thread_stacks", 100]),
            Program("wandering_code", [here / "wandering_code", 1000, 1]),
            Program("three_chunks", [here / "three_chunks"]),
            Program("w2", [bench / "w2", 2000000]),
            Program("w3", [bench / "w3", 500000, 4]),
            Program("cc1plus", [compiler, "-quiet", "-O1", "-o", "/dev/null", source]),
            Program("python3", ["/usr/bin/python3", "-c", JSON], {"PYTHONMALLOC": "malloc"}),
            Program("zip_threads", [shutil.which("java") or "", "-Xmx192m", "-jar", here / "zip_threads.jar", 24, 4]),
            Redis(), Postgres(),
        ]
        names = {program.name: program for program in found}
        for name in wanted or names:
            if name not in names:
                fail(f"no program {name}; there are {', '.join(names)}")
            if names[name].is_here():
                yield names[name]
            else:
                print(f"{name:17} is not here, left out")

    def recorded(self, trace):
        """Malloc's resident bytes in the recorded process at the peak and at the end, and what other anonymous ones there were. The
        peak is that of a snapshot, or the end's and what the kernel's peak of RSS was above the end's RSS."""
        heap, other = {}, {}
        for at in ("peak", "end"):
            report = json.loads(self.run([self.heapspy, "report", "--json", "--at", at, trace]))
            parts = {part["name"]: part["bytes"] for part in report["rss"]["parts"]}
            if not any(name.startswith("malloc: free") for name in parts):  # not taken apart: whole mappings
                parts = {group["name"]: group["bytes"] for group in report["rss"]["groups"]}
            heap[at] = sum(size for name, size in parts.items() if name.startswith("malloc"))
            other[at] = sum(size for name, size in parts.items()
                            if not name.startswith("malloc") and name not in ("libraries and files", "heapspy itself", "shared memory"))
        above = (report["process"]["peak_rss_bytes"] or 0) - report["rss"]["total_bytes"] - abs(other["peak"] - other["end"])
        heap["peak"] = max(heap["peak"], heap["end"] + above)
        return heap, other

    def copied(self, program):
        """Bytes of the program's files that are anonymous, in a real run."""
        file = self.folder / "copied"
        file.write_text("", encoding="ascii")
        os.chmod(file, 0o666)
        program.measure(self, ["default"], {"LD_PRELOAD": self.built("copied", COPIED), "COPIED_TO": str(file)}, lambda name: name, {}, 1)
        return max(map(int, file.read_text(encoding="ascii").split()), default=0)

    def recorder(self, traces, touch=True):
        return {"HEAPSPY_OUT": str(traces), "HEAPSPY_TOUCH": "on" if touch else "off", "HEAPSPY_STACKS": "none"}

    def real(self, program, settings):
        """Setting → list of (peak, end) for real: anonymous bytes."""
        measured = {}
        plain = [each for each in settings if not each.startswith("trim=")]
        program.measure(self, plain, {}, lambda name: name, measured, self.repeat)
        for each in settings:
            if each.startswith("trim="):
                program.measure(self, ["default"], {"LD_PRELOAD": self.built("trims", TRIMMER), "TRIM_EVERY": each[5:], **program.trimming},
                                lambda _, each=each: each, measured, self.repeat)
        return measured


class Program:
    """One that ends by itself."""
    trimming = {}
    has_peak = True  # whether what is not malloc's is known at the peak

    def __init__(self, name, command, environment=None):
        self.name, self.command, self.environment = name, [str(word) for word in command], environment or {}

    def is_here(self):
        return self.command[0] and all(os.path.exists(word) for word in self.command if word.startswith("/") and "null" not in word)

    def preloads(self, bench):
        """What is preloaded in every run."""
        return []

    def environment_with(self, bench, changes):
        preloads = ([str(changes["LD_PRELOAD"])] if "LD_PRELOAD" in changes else []) + self.preloads(bench)
        return {**self.environment, **changes, **({"LD_PRELOAD": ":".join(preloads)} if preloads else {})}

    def record(self, bench):
        traces = bench.folder / self.name
        traces.mkdir()
        bench.run(self.command, self.environment_with(bench, {"LD_PRELOAD": bench.library, **bench.recorder(traces)}))
        return largest(traces)

    def beside(self):
        return []

    def measure(self, bench, settings, changes, name_of, measured, repeat):
        text = bench.run([bench.heapspy, "compare", "--json", "--repeat", repeat, "--with", ",".join(settings), *self.beside(),
                          "--", *self.command], self.environment_with(bench, changes))
        for run in json.loads(text)["runs"]:
            if run["peak_rss_bytes"] is None or run["end_anonymous_bytes"] is None:
                continue
            files = run["end_rss_bytes"] - run["end_anonymous_bytes"]
            measured.setdefault(name_of(run["setting"]), []).append((run["peak_rss_bytes"] - files, run["end_anonymous_bytes"]))


class Stacks(Program):
    """Its peak is of stacks that are growing when it is recorded."""
    has_peak = False


class Redis(Program):
    """redis-server until redis-benchmark has ended."""
    def __init__(self):
        self.port = free_port()
        super().__init__("redis", ["/usr/bin/redis-server", "--port", self.port, "--save", "", "--appendonly", "no"])
        self.load = (f"until redis-cli -p {self.port} ping; do sleep 0.05; done; redis-benchmark -q -p {self.port} -t set,lpush,hset -n 150000 "
                     "-r 100000 -d 200 -P 16")

    def is_here(self):
        return shutil.which("redis-server") and shutil.which("redis-benchmark")

    def preloads(self, bench):
        return [str(bench.built("c_library", C_LIBRARY))]

    def beside(self):
        return ["--load", self.load]

    def record(self, bench):
        traces = bench.folder / self.name
        traces.mkdir()
        environment = self.environment_with(bench, {"LD_PRELOAD": bench.library, **bench.recorder(traces)})
        with subprocess.Popen(self.command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, cwd=bench.folder) as server:
            bench.run(["sh", "-c", self.load])
            server.terminate()
        return largest(traces)


class Postgres(Program):
    """A server's one backend while pgbench is connected: the TPC-B-like transactions, and one in fifty sorts the accounts. As the
    user `postgres`; its memory is sampled every 5 ms, for it is not the largest process (shared buffers)."""
    trimming = {"TRIM_FORKED": "1"}

    def __init__(self):
        found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"))
        self.bin = found[-1].parent if found else pathlib.Path("/nowhere")
        self.data = None
        super().__init__("postgres", [self.bin / "postgres"])

    def is_here(self):
        return (self.bin / "pgbench").exists() and (os.geteuid() != 0 or shutil.which("setpriv"))

    def as_user(self, words):
        if os.geteuid() == 0:
            return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *map(str, words)]
        return [str(word) for word in words]

    def prepare(self, bench):
        if self.data:
            return
        os.chmod(bench.folder, 0o755)
        home = bench.folder / "postgres"
        home.mkdir(mode=0o777)
        os.chmod(home, 0o777)
        self.data = home / "data"
        bench.run(self.as_user([self.bin / "initdb", "-D", self.data, "-A", "trust"]))
        (home / "sort.sql").write_text(SORT, encoding="ascii")
        self.serve(bench, {}, lambda: bench.run(self.as_user([self.bin / "pgbench", "-h", home, "-i", "-s", "1", "postgres"])))

    def serve(self, bench, environment, work):
        words = [self.bin / "postgres", "-D", self.data, "-k", self.data.parent, "-c", "listen_addresses=", "-c", "work_mem=64MB",
                 "-c", "fsync=off", "-c", "jit=off", "-c", "max_parallel_workers_per_gather=0", "-c", "autovacuum=off"]
        log = self.data.parent / "log"
        with open(log, "w", encoding="utf-8") as to_log, \
                subprocess.Popen(self.as_user(words), env={**os.environ, **{name: str(value) for name, value in environment.items()}},
                                 stdout=to_log, stderr=to_log, cwd=self.data) as server:
            while subprocess.run(self.as_user([self.bin / "pg_isready", "-h", self.data.parent]), stdout=subprocess.DEVNULL,
                                 check=False).returncode:
                if server.poll() is not None:
                    fail(f"postgres does not start (status {server.returncode}, {environment}): {log.read_text(encoding='utf-8')[-400:]}")
                time.sleep(0.05)
            try:
                return work()
            finally:
                server.send_signal(2)  # fast shutdown

    def pgbench(self):
        return self.as_user([self.bin / "pgbench", "-h", self.data.parent, "-n", "-c", "1", "-t", "1500", "-b", "tpcb-like@50", "-f",
                             f"{self.data.parent / 'sort.sql'}@1", "--random-seed=7", "postgres"])

    def record(self, bench):
        self.prepare(bench)
        traces = self.data.parent / "traces"
        traces.mkdir(exist_ok=True)
        os.chmod(traces, 0o777)
        self.serve(bench, {"LD_PRELOAD": bench.library, **bench.recorder(traces)}, lambda: bench.run(self.pgbench()))
        return largest(traces)

    def measure(self, bench, settings, changes, name_of, measured, repeat):
        recipes = json.loads(bench.run([bench.heapspy, "compare", "--json", "--with", ",".join(settings), "--", "/bin/true"]))["runs"]
        for _ in range(repeat):
            for recipe in recipes:
                sampled = self.serve(bench, {**recipe["environment"], **changes}, self.sample)
                if sampled:
                    measured.setdefault(name_of(recipe["setting"]), []).append((max(sampled), sampled[-1]))

    def sample(self):
        values, backend, of_it = {}, None, None
        with subprocess.Popen(self.pgbench(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as load:
            while load.poll() is None:
                of_it = backend and anonymous(backend)
                if of_it:
                    values.setdefault(backend, []).append(of_it)
                else:  # pgbench connects once to look around, then for the transactions
                    backend = find_backend()
                time.sleep(0.005)
        return max(values.values(), key=len, default=[])


def find_backend():
    for folder in pathlib.Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and b"postgres: postgres postgres" in (folder / "cmdline").read_bytes():
                return folder
        except OSError:
            continue
    return None


def anonymous(process):
    try:
        for line in (process / "smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Anonymous:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def largest(traces):
    return max(traces.glob("*.hspy"), key=lambda path: path.stat().st_size)
