#!/usr/bin/env python3
"""The layers of src/: each includes only itself and those below, and only `os` talks to the kernel.

Usage: check_layers.py [SRC]

A layer is a folder of src/. What is checked, a line a fault:
  - no file includes a header of a layer above its own;
  - quoted includes are written from src/ ("slab/classes.h"), so that the layer is always visible;
  - no file includes a .c file;
  - the public header is known to `abi` alone;
  - system calls, the headers that declare them, and the instruction itself, stand in `os` only.
    One exception: a panic writes its message and aborts, and must not need a layer above `base`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

LAYERS = ("base", "os", "span", "slab", "cache", "modes", "front", "abi")

# Calls that enter the kernel, or that libc turns into one, which an allocator could want.
SYSTEM_CALLS = """
    syscall mmap mmap64 munmap mremap mprotect madvise posix_madvise process_madvise mincore mlock
    mlock2 munlock msync brk sbrk prctl memfd_create membarrier userfaultfd mbind
    open open64 openat creat close read pread write pwrite writev readv dprintf lseek fstat stat
    ioctl fcntl dup dup2 pipe pipe2 unlink rename readlink access poll
    getpid gettid getppid getrandom getauxval secure_getenv getenv sysconf getpagesize getrlimit
    setrlimit getrusage sched_yield sched_getcpu getcpu sched_getaffinity sched_setaffinity
    get_nprocs get_nprocs_conf clock_gettime gettimeofday time nanosleep clock_nanosleep usleep
    sleep sigaction sigprocmask pthread_sigmask raise kill tgkill abort
""".split()
SYSTEM_HEADERS = re.compile(
    r"(sys/(?!types\.h|cdefs\.h)\w+|linux/\w+|asm/\w+|unistd|fcntl|sched|poll|signal|time|link|dlfcn)"
    r"\.h$"
)
# file: what it may use all the same
ALLOWED = {"base/panic.c": {"write", "abort", "unistd.h"}}

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
CALL = re.compile(r"(?<![\w.>])(" + "|".join(SYSTEM_CALLS) + r")\s*\(")
# A file may call a static function of its own `read`.
OWN_FUNCTION = re.compile(r"^(?:static|hak_inline)\b[^;{}()]*?\b(\w+)\(", re.MULTILINE)
INSTRUCTION = re.compile(r'"[^"\n]*\b(syscall|svc)\b[^"\n]*"')
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')


def blank(found: re.Match[str]) -> str:
    """As many lines as before, so that line numbers stay right."""
    return "\n" * found[0].count("\n") or " "


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def include_faults(text: str, layer: str, allowed: set[str]) -> Iterator[tuple[int, str]]:
    for found in INCLUDE.finditer(text):
        line, quoted, target = line_of(text, found.start(2)), found[1] == '"', found[2]
        folder = target.partition("/")[0]
        if target.endswith((".c", ".cc")):
            yield line, f"includes the source file {target}"
        elif folder == "hakmem":
            if layer != "abi":
                yield line, f"includes the public header {target}, which only abi knows"
        elif quoted and (folder not in LAYERS or "/" not in target):
            yield line, f'writes "{target}" without its layer'
        elif quoted and LAYERS.index(folder) > LAYERS.index(layer):
            yield line, f"{layer} includes {target}, which lies above it"
        elif (
            not quoted and layer != "os" and SYSTEM_HEADERS.match(target) and target not in allowed
        ):
            yield line, f"includes <{target}>: only os talks to the kernel"


def system_call_faults(text: str, allowed: set[str]) -> Iterator[tuple[int, str]]:
    for found in INSTRUCTION.finditer(text):
        yield line_of(text, found.start()), f"executes {found[1]}: only os talks to the kernel"
    code = STRING.sub(blank, text)
    own = {found[1] for found in OWN_FUNCTION.finditer(code)}
    for found in CALL.finditer(code):
        if found[1] not in allowed | own:
            line = line_of(code, found.start(1))
            yield line, f"calls {found[1]}(): only os talks to the kernel"


def faults_of(path: Path, src: Path) -> list[tuple[int, str]]:
    name = path.relative_to(src).as_posix()
    layer = name.partition("/")[0]
    if layer not in LAYERS:
        return [(1, f"lies in no layer; the layers are {' '.join(LAYERS)}")]
    allowed = ALLOWED.get(name, set())
    text = COMMENT.sub(blank, path.read_text())
    faults = list(include_faults(text, layer, allowed))
    if layer != "os":
        faults += system_call_faults(text, allowed)
    return faults


def main() -> int:
    src = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "src"
    files = sorted(p for p in src.rglob("*") if p.suffix in (".c", ".h", ".cc", ".hpp"))
    if not files:
        sys.exit(f"layers: no source files below {src}")
    faults = [(path, line, what) for path in files for line, what in faults_of(path, src)]
    for path, line, what in faults:
        print(f"{path}:{line}: {what}")
    print(f"layers: {len(files)} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
