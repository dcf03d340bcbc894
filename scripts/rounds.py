"""Runs the variants of a measurement in turns (A B C, A B C, …), so that a machine that drifts drifts for all of them.

Used by the bench-* scripts. A variant is a name and the environment that makes it.
"""

import argparse
import dataclasses
import os
import pathlib
import shutil
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclasses.dataclass
class Variant:
    name: str
    environment: dict  # beside the caller's own
    records: bool = False  # writes files into the folder it is given as RECORDS


def fail(text):
    """One line on stderr, exit status 1."""
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {text}")


def arguments(description, rounds, **more):
    """The options that all bench scripts share, and `more`: name=(default, help)."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds, help=f"turns; the median counts (default {rounds})")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="build folder (default build/release)")
    parser.add_argument("--scratch", default=None, help="where traces go for the length of a run (default: the temporary folder)")
    for name, (default, text) in more.items():
        parser.add_argument(f"--{name}", type=type(default), default=default, help=f"{text} (default {default})")
    options = parser.parse_args()
    options.build = options.build.resolve()
    return options


def built(options, *parts):
    """A file of the build folder, which must be there."""
    path = options.build.joinpath(*parts)
    if not path.exists():
        fail(f"{path} is not there: build first (cmake --build --preset release), or give --build FOLDER")
    return path


def installed(*candidates):
    """The first of the files that exists, or None."""
    for candidate in candidates:
        if os.path.exists(candidate):
            return candidate
    return None


def heaptrack_raw():
    """heaptrack's preload alone, without its interpreter and compressor; None: not installed."""
    preload = installed("/usr/lib/heaptrack/libheaptrack_preload.so", "/usr/lib/x86_64-linux-gnu/heaptrack/libheaptrack_preload.so",
                        "/usr/lib/aarch64-linux-gnu/heaptrack/libheaptrack_preload.so")
    if not preload:
        return None
    return Variant("heaptrack raw", {"LD_PRELOAD": preload, "DUMP_HEAPTRACK_OUTPUT": "RECORDS/heaptrack.raw"}, records=True)


def usual_variants(options):
    """Bare, under the floor, and recorded by heapspy in mode full without stacks."""
    recorder = {"HEAPSPY_OUT": "RECORDS", "HEAPSPY_MODE": "full", "HEAPSPY_STACKS": "none"}
    return [
        Variant("bare", {}),
        Variant("floor", {"LD_PRELOAD": str(built(options, "bench", "libfloor.so"))}),
        Variant("heapspy", {"LD_PRELOAD": str(built(options, "lib", "libheapspy.so")), **recorder}, records=True),
    ]


def environment_of(variant, folder):
    """The caller's environment without anything that would get in the way, and what the variant sets."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in ("LD_PRELOAD", "GLIBC_TUNABLES") and not name.startswith(("HEAPSPY_", "MALLOC_"))
    }
    return {**clean, **{name: value.replace("RECORDS", str(folder)) for name, value in variant.environment.items()}}


def in_turns(options, variants, measure, remove_at_once=True):
    """measure(variant, environment, folder) → a value; every variant once per round. Returns name → values by round.

    The first variant of a round is another one each time. `folder` is fresh and is removed after the measurement, so
    that no variant pays for writing back what another one wrote; or all are removed in the end, where it is making files
    that is measured: ext4 makes them several times more slowly for five minutes after others were removed nearby.
    """
    values = {variant.name: [] for variant in variants}
    folders = []
    for turn in range(options.rounds):
        shift = turn % len(variants)
        for variant in variants[shift:] + variants[:shift]:
            folder = tempfile.mkdtemp(prefix="heapspy-bench-", dir=options.scratch)
            try:
                values[variant.name].append(measure(variant, environment_of(variant, folder), pathlib.Path(folder)))
            finally:
                folders.append(folder)
                if remove_at_once:
                    shutil.rmtree(folders.pop(), ignore_errors=True)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    return values


def added(values, base):
    """Median over the rounds of (value - base in the same round)."""
    return statistics.median(value - under for value, under in zip(values, base))


def bytes_in(folder):
    return sum(path.stat().st_size for path in pathlib.Path(folder).iterdir() if path.is_file())
