"""How much longer a program takes to start under HAKMEM: python startup.py [RUNS]

Prints the median time of /bin/true without and with the library, interleaved. A
measurement, not a test: a time depends on the machine and on what else it does.
"""

from __future__ import annotations

import os
import statistics
import sys
import time

from harness import LIBRARY, PATH

PLAIN = {"PATH": PATH}
PRELOADED = PLAIN | {"LD_PRELOAD": str(LIBRARY)}


def start_and_wait_ms(environment: dict[str, str]) -> float:
    before = time.perf_counter_ns()
    pid = os.posix_spawn("/bin/true", ["/bin/true"], environment)
    _, status = os.waitpid(pid, 0)
    after = time.perf_counter_ns()
    if status != 0:
        sys.exit(f"/bin/true ended with {status}")
    return (after - before) / 1e6


def is_mapped() -> bool:
    """The dynamic linker only warns when a preload fails, so a program that can tell is asked."""
    reader, writer = os.pipe()
    to_pipe = [(os.POSIX_SPAWN_DUP2, writer, 1)]
    pid = os.posix_spawn("/bin/cat", ["cat", "/proc/self/maps"], PRELOADED, file_actions=to_pipe)
    os.close(writer)
    with os.fdopen(reader) as maps:
        mapped = str(LIBRARY) in maps.read()
    os.waitpid(pid, 0)
    return mapped


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    if not is_mapped():
        sys.exit(f"{LIBRARY} cannot be preloaded")
    for environment in (PLAIN, PRELOADED):
        start_and_wait_ms(environment)
    pairs = [(start_and_wait_ms(PLAIN), start_and_wait_ms(PRELOADED)) for _ in range(runs)]
    plain, preloaded = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"/bin/true, median of {runs}: {plain:.3f} ms; with {LIBRARY.name}: {preloaded:.3f} ms")
    print(f"difference: {preloaded - plain:+.3f} ms")


if __name__ == "__main__":
    main()
