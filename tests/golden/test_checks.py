"""The tools that judge the tree can say no: each is shown what it must refuse and must accept."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = Path(os.environ.get("HAKMEM_BUILD", ROOT / "build" / "release"))


def tool(name: str, *arguments: str | Path) -> tuple[int, str]:
    command = [sys.executable, ROOT / "tools" / name, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def compile_shared(output: Path, source: Path, *flags: str) -> Path:
    common = [
        "-shared",
        "-fPIC",
        "-O2",
        "-fno-builtin",
        "-fvisibility=hidden",
        "-fcf-protection=none",
    ]
    subprocess.run(["gcc", *common, *flags, "-o", output, source], check=True, timeout=60)
    return output


# --- layers -------------------------------------------------------------------


def layers(tmp_path: Path, name: str, text: str) -> tuple[int, str]:
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return tool("check_layers.py", tmp_path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("slab/a.c", '#include "slab/classes.h"\n#include "os/memory.h"\n#include <stddef.h>\n'),
        ("os/a.c", "#include <sys/mman.h>\nvoid f(void) { munmap(0, 0); }\n"),
        ("span/a.c", '/* mmap() is not called here, nor is "syscall". */\n// madvise(x)\n'),
        ("span/a.c", 'void f(void) { os->read(1); puts("write(2) failed"); map_close(3); }\n'),
        ("modes/a.c", "static long read(int x) { return x; }\nlong f(void) { return read(1); }\n"),
        ("base/panic.c", "#include <unistd.h>\nvoid f(void) { write(2, 0, 0); abort(); }\n"),
        ("abi/a.c", '#include "hakmem/hakmem.h"\n#include "front/fast.h"\n'),
    ],
)
def test_layers_accept(tmp_path: Path, name: str, text: str) -> None:
    status, said = layers(tmp_path, name, text)
    assert status == 0, said


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("slab/a.c", '\n#include "cache/bin.h"\n', "a.c:2: slab includes cache/bin.h"),
        ("base/a.h", '#include "os/memory.h"\n', "base includes os/memory.h"),
        ("front/a.c", '#include "fast.h"\n', 'writes "fast.h" without its layer'),
        ("front/a.c", '#include "front/slow.c"\n', "includes the source file"),
        ("cache/a.c", "#include <hakmem/hakmem.h>\n", "includes the public header"),
        ("cache/a.c", "#include <sys/mman.h>\n", "includes <sys/mman.h>"),
        ("span/a.c", "/*\n*/\nvoid f(void) { madvise(p, n, 4); }\n", "a.c:3: calls madvise()"),
        ("span/a.c", 'void f(void) { __asm__("syscall"); }\n', "executes syscall"),
        ("base/other.c", "void f(void) { write(2, 0, 0); }\n", "calls write()"),
        ("util/a.c", "", "lies in no layer"),
    ],
)
def test_layers_refuse(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    status, said = layers(tmp_path, name, text)
    assert status == 1 and complaint in said, said


# --- fast paths ---------------------------------------------------------------


@pytest.fixture(scope="module")
def tracer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("tracer") / "trace_calls"
    source = ROOT / "bench" / "tools" / "trace_calls.c"
    flags = ["-D_GNU_SOURCE", "-fno-builtin", "-pthread"]
    subprocess.run(["gcc", *flags, "-o", program, source], check=True, timeout=60)
    return program


def fast_path(tmp_path: Path, tracer: Path, *spoilers: str) -> tuple[int, str]:
    flags = [f"-DSPOIL_{name}" for name in spoilers]
    library = compile_shared(tmp_path / "libsample.so", HERE / "sample_malloc.c", *flags)
    return tool("fast_path.py", library, "--tracer", tracer, "--limits-only")


def test_fast_path_accepts_a_short_one(tmp_path: Path, tracer: Path) -> None:
    status, said = fast_path(tmp_path, tracer)
    assert status == 0 and "malloc, up to 1 KiB" in said, said


@pytest.mark.parametrize(
    ("spoiler", "complaint"),
    [
        ("LOCK", "1 atomics, allowed: none"),
        ("EXCHANGE", "1 atomics, allowed: none"),
        ("DIVISION", "1 divisions, allowed: none"),
        ("CALL", "1 calls, allowed: none"),
        ("LENGTH", "instructions, allowed: 15"),
        ("LENGTH", "branches, allowed: 2"),
    ],
)
def test_fast_path_refuses(tmp_path: Path, tracer: Path, spoiler: str, complaint: str) -> None:
    status, said = fast_path(tmp_path, tracer, spoiler)
    assert status == 1 and complaint in said, said


def test_fast_path_refuses_a_library_that_was_not_called(tmp_path: Path, tracer: Path) -> None:
    source = tmp_path / "empty.c"
    source.write_text("int nothing;\n")
    library = compile_shared(tmp_path / "libempty.so", source)
    status, said = tool("fast_path.py", library, "--tracer", tracer, "--limits-only")
    assert status == 1 and "malloc is that of" in said, said


# --- symbols ------------------------------------------------------------------


def test_symbols_of_the_library() -> None:
    status, said = tool("check_symbols.py", BUILD)
    assert status == 0, said


@pytest.mark.parametrize(
    ("text", "flags", "complaint"),
    [
        ("int shown_by_mistake;", ("-fvisibility=default",), "shown_by_mistake"),
        ("int x;", (), "lacks names"),
        ("int x;", (), "not bound at load time"),
        ("int x;", (), "can be unloaded"),
        ("int x;", ("-Wl,--no-as-needed", "-lm"), "needs libm.so.6"),
        ("int x;", ("-Wl,-z,norelro",), "RELRO"),
        ("int x;", ("-Wl,-z,execstack",), "both writable and executable"),
        ("__thread char x[17]; char *f(void) { return x; }", (), "17 bytes of static TLS"),
        (
            '__thread int x; __attribute__((visibility("default"))) int *f(void) { return &x; }',
            ("-ftls-model=global-dynamic",),
            "initial-exec",
        ),
    ],
)
def test_symbols_refuse(tmp_path: Path, text: str, flags: tuple[str, ...], complaint: str) -> None:
    source = tmp_path / "library.c"
    source.write_text(text + "\n")
    compile_shared(tmp_path / "libhakmem.so", source, *flags)
    subprocess.run(["gcc", "-c", "-o", tmp_path / "a.o", source], check=True, timeout=60)
    subprocess.run(["ar", "rc", tmp_path / "libhakmem.a", tmp_path / "a.o"], check=True, timeout=60)
    status, said = tool("check_symbols.py", tmp_path)
    assert status == 1 and complaint in said, said
