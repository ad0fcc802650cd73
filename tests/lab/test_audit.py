"""hakmem audit: sees what is in the code, and says no to what must not be there."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hakmem_lab import paths
from hakmem_lab.machine_code import subject, verdict
from hakmem_lab.machine_code.annotations import read_sources
from hakmem_lab.machine_code.atomics import atomics_of
from hakmem_lab.machine_code.elf import image_of
from hakmem_lab.machine_code.instructions import ordering_kind
from support import LIBRARY, ROOT, hakmem

SAMPLE = ROOT / "tests/golden/sample_malloc.c"
NOTE = "/* atomic: warm, telemetry; read by nobody. */\n"
ATOMIC = '__attribute__((visibility("default"))) long shown(_Atomic long *x, long y) {\n    %s\n}\n'
ADDED = "return __atomic_fetch_add(x, y, __ATOMIC_RELAXED);"


def compile_shared(output: Path, source: Path, *flags: str, compiler: str = "gcc") -> Path:
    common = ["-shared", "-fPIC", "-O2", "-g", "-fno-builtin", "-fvisibility=hidden"]
    subprocess.run([compiler, *common, *flags, "-o", output, source], check=True, timeout=60)
    return output


# --- what is seen -------------------------------------------------------------


def test_finds_the_atomics_that_objdump_finds() -> None:
    """Two disassemblers: nothing is missed and nothing made up."""
    done = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", LIBRARY], capture_output=True, text=True, check=True
    )
    # A segment prefix that changes nothing may stand first: the assembler pads with them.
    atomic = r"^\s+([0-9a-f]+):\s+(?:[c-gs]s )*(?:lock |xchg\s.*\(|[mls]fence)"
    pattern = re.compile(atomic, re.MULTILINE)
    expected = [int(address, 16) for address in pattern.findall(done.stdout)]
    assert len(expected) > 20
    assert sorted(each.address for each in atomics_of(image_of(str(LIBRARY)))) == expected


def test_a_stripped_library_shows_as_many(tmp_path: Path) -> None:
    stripped = tmp_path / "stripped.so"
    subprocess.run(["strip", "-o", stripped, LIBRARY], check=True)
    whole, bare = image_of(str(LIBRARY)), image_of(str(stripped))
    assert bare.is_stripped and not bare.lines.are_there
    assert [each.address for each in atomics_of(bare)] == [
        each.address for each in atomics_of(whole)
    ]


@pytest.mark.parametrize(
    ("machine", "mnemonic", "operands", "kind"),
    [
        ("x86_64", "lock xadd", "dword ptr [rdi], eax", "atomics"),
        ("x86_64", "xchg", "dword ptr [rdi], eax", "atomics"),
        ("x86_64", "xchg", "eax, edx", None),
        ("x86_64", "mfence", "", "fences"),
        ("x86_64", "lock or", "qword ptr [rsp], 0", "fences"),
        ("x86_64", "lock or", "dword ptr [rsp - 8], 0", "fences"),
        ("x86_64", "lock or", "dword ptr [rsp + 8], 1", "atomics"),
        ("x86_64", "mov", "dword ptr [rdi], eax", None),
        ("aarch64", "ldaddal", "w0, w1, [x2]", "atomics"),
        ("aarch64", "casal", "w0, w1, [x2]", "atomics"),
        ("aarch64", "swpl", "w0, w1, [x2]", "atomics"),
        ("aarch64", "stlxr", "w3, w1, [x0]", "atomics"),
        ("aarch64", "ldaxr", "w1, [x0]", None),  # its stlxr counts
        ("aarch64", "stlr", "w1, [x0]", None),
        ("aarch64", "dmb", "ish", "fences"),
    ],
)
def test_what_is_an_atomic(machine: str, mnemonic: str, operands: str, kind: str | None) -> None:
    assert ordering_kind(machine, mnemonic, operands) == kind


def test_code_for_another_processor_is_read(tmp_path: Path) -> None:
    compiler = shutil.which("aarch64-linux-gnu-gcc")
    if compiler is None:
        pytest.skip("there is no compiler for AArch64 here")
    source = tmp_path / "library.c"
    fence = "void fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }\n"
    source.write_text(ATOMIC % ADDED + fence)
    for flags in (["-mno-outline-atomics"], []):  # LL/SC inline, or a call of libgcc's helper
        options = [*flags, "-nostartfiles", "-fvisibility=default"]
        library = compile_shared(tmp_path / "libarm.so", source, *options, compiler=compiler)
        image_of.cache_clear()
        found = {(each.function, each.kind) for each in atomics_of(image_of(str(library)))}
        assert found == {("shown", "atomics"), ("fence", "fences")}
    done = hakmem("audit", library)
    assert done.returncode == 1
    assert "not run: libarm cannot be traced: its code is aarch64's" in done.stdout
    assert "__aarch64_ldadd8_relax" in done.stdout


# --- what is refused ----------------------------------------------------------


def faults(tmp_path: Path, text: str, *flags: str) -> str:
    """What the check says of the sample with some text added."""
    source = tmp_path / "src" / "front" / "sample.c"
    source.parent.mkdir(parents=True)
    source.write_text(SAMPLE.read_text().replace("    __atomic", f"    {NOTE}    __atomic") + text)
    library = compile_shared(tmp_path / "libsample.so", source, *flags)
    tracer = paths.tool("trace_calls")
    found = subject.examine(subject.allocator_of(str(library)), tracer, [16], False, None)
    return "\n".join(
        verdict.faults_of(read_sources(tmp_path / "src"), found.image, found.atomics, found.paths)
    )


@pytest.mark.parametrize(
    "body",
    [
        NOTE + ADDED,
        "/* atomic: cold, correctness; pairs with\n * the load in elsewhere. */\n" + ADDED,
        NOTE + "if (__atomic_exchange_n(x,\n y, __ATOMIC_RELAXED) == 1) return 1; return 0;",
        NOTE + "__atomic_thread_fence(__ATOMIC_RELEASE); return *x;",  # no instruction
        NOTE + "__atomic_store_n(x, y, __ATOMIC_SEQ_CST); return 1;",  # an XCHG
        '/* __sync_fetch_and_add(x, 1) */ (void)y; (void)"__sync_synchronize()"; return *x;',
        "return __atomic_load_n(x, __ATOMIC_ACQUIRE) + y;",
    ],
)
def test_check_accepts(tmp_path: Path, body: str) -> None:
    assert faults(tmp_path, ATOMIC % body) == ""


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (ADDED, "__atomic_fetch_add has no note above it"),
        (NOTE + "if (y) {" + ADDED + "} return 0;", "__atomic_fetch_add has no note above it"),
        (NOTE + "y += 2; " + ADDED, "a note about an atomic, and none below it"),
        (NOTE + "return *x + y;", "a note about an atomic, and none below it"),
        (NOTE + "return __atomic_load_n(x, __ATOMIC_RELAXED) + y;", "which is no read-modify"),
        ("/* atomic: a counter */\n" + ADDED, "the note is not of the form"),
        ("/* atomic: warm, telemetry; */\n" + ADDED, "the note is not of the form"),
        ("/* atomic: hot, telemetry; read. */\n" + ADDED, "is hot: the fast path has none"),
        ("__atomic_thread_fence(__ATOMIC_RELEASE); return *x;", "__atomic_thread_fence has no"),
        ("return __sync_fetch_and_add(x, y);", "__sync_fetch_and_add has no note"),
        ('__asm__("lock; incq %0" : "+m"(*x)); return y;', "__asm__ has no note"),
        # What no search of the sources finds.
        ("return *x += y;", "`lock "),
        ("*x = y; return 1;", "`xchg "),
        ("__atomic_store_n(x, y, __ATOMIC_SEQ_CST); return 1;", "`xchg "),
        ("\n#define JOIN(a, b) a##b\nreturn JOIN(__atomic_fetch, _add)(x, y, 0);", "`lock "),
    ],
)  # fmt: skip
def test_check_refuses(tmp_path: Path, body: str, complaint: str) -> None:
    said = faults(tmp_path, ATOMIC % body)
    assert re.search(r"^src/front/sample\.c:\d+: .*" + re.escape(complaint), said, re.MULTILINE), (
        said
    )


@pytest.mark.parametrize("spoiler", ["LOCK", "EXCHANGE"])
def test_check_refuses_an_atomic_on_a_fast_path(tmp_path: Path, spoiler: str) -> None:
    """Though it has a note, and a mild one."""
    said = faults(tmp_path, "", f"-DSPOIL_{spoiler}")
    assert said == "fast path of malloc, 16 bytes: 1 atomics, allowed: none"


# --- the command --------------------------------------------------------------


def test_our_notes_hold() -> None:
    done = hakmem("audit", "--check")
    assert done.returncode == 0, done.stdout
    assert ", 0 faults" in done.stderr


def test_a_new_atomic_of_ours_needs_a_note(tmp_path: Path) -> None:
    copy = tmp_path / "src"
    shutil.copytree(ROOT / "src", copy)
    path = copy / "os/memory.c"
    path.write_text(
        path.read_text() + "void count(void) { atomic_fetch_add_explicit(&calls[0], 1, 0); }\n"
    )
    done = hakmem("audit", "--check", "--source", copy)
    assert done.returncode == 1
    assert re.search(r"^src/os/memory.c:\d+: atomic_fetch_add_explicit has no note", done.stdout)
    assert "src/os/memory.c is newer than" in done.stdout


def test_each_of_our_notes_is_needed(tmp_path: Path) -> None:
    operations = [each for each in read_sources(ROOT / "src").operations if each.note]
    assert len(operations) > 5
    copy = tmp_path / "src"
    shutil.copytree(ROOT / "src", copy)
    for path in copy.rglob("*.[ch]"):
        path.write_text(path.read_text().replace("/* atomic: ", "/* An atomic: "))
    image = image_of(str(LIBRARY))
    found = verdict.faults_of(read_sources(copy), image, atomics_of(image), {})
    for each in operations:
        name = f"src/{each.file}:{each.first_line}: {each.name} has no note above it"
        assert any(fault.startswith(name) for fault in found)


def test_peers_stand_in_one_table(tmp_path: Path) -> None:
    library = compile_shared(tmp_path / "libsample.so", SAMPLE, "-DSPOIL_DIVISION")
    output = tmp_path / "audit.json"
    done = hakmem(
        "audit", "hakmem", library, "--peers", "glibc", "--size", "64", "--json", output
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for word in ("libsample", "glibc", "hakmem", "cache lines of 64", "libc.so.6"):
        assert word in done.stdout
    content = json.loads(output.read_text())
    assert content["schema"] == 1 and content["machine"]["architecture"]
    rows = {(row["allocator"], row["call"]): row for row in content["rows"]}
    assert rows["hakmem", "malloc"]["atomics"] == rows["hakmem", "free"]["calls"] == 0
    assert rows["libsample", "malloc"]["divisions"] == 1
    assert rows["glibc", "malloc"]["instructions"] == len(rows["glibc", "malloc"]["listing"]) > 10
    libraries = {each["name"]: each for each in content["libraries"]}
    assert {each["purpose"] for each in libraries["hakmem"]["atomics"]} == {
        "telemetry", "correctness"
    }  # fmt: skip
    assert all(each["heat"] is None for each in libraries["glibc"]["atomics"])


def test_the_operators_are_fast_paths_too() -> None:
    done = hakmem("audit", "--size", "64", "--operators")
    assert "operator new" in done.stdout and "operator delete" in done.stdout


def test_a_listing_names_the_source() -> None:
    done = hakmem("audit", "--listing", "free:64")
    assert done.returncode == 0, done.stderr
    assert "src/front/fast.h:" in done.stdout and "window_map" in done.stdout


def test_what_cannot_be_traced_is_said_and_the_rest_is_kept(tmp_path: Path) -> None:
    source = tmp_path / "crash.c"
    source.write_text(
        "#define SHOWN __attribute__((visibility(\"default\")))\n#include <stddef.h>\n"
        "SHOWN void *malloc(size_t n) { return *(void *volatile *)n; }\n"
        "SHOWN void free(void *p) {}\n"
    )  # fmt: skip
    library = compile_shared(tmp_path / "libcrash.so", source)
    text = tmp_path / "text.so"
    text.write_text("not a library\n")
    done = hakmem("audit", library, text, "--peers", "glibc", "--size", "64")
    assert done.returncode == 1
    assert "libcrash cannot be traced: the calls crashed: Segmentation fault" in done.stdout
    assert f"{text} cannot be audited: it is no whole ELF file" in done.stdout
    assert re.search(r"^ *malloc +64 +glibc +\d+", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "status", "complaint"),
    [
        ([SAMPLE], 2, "sample_malloc.c cannot be audited: it is no whole ELF file"),
        (["/nonexistent.so"], 2, "there is no library '/nonexistent.so'"),
        (["--size", "0"], 1, "a size is a number of bytes from 1"),
        (["--listing", "malloc"], 1, "--listing takes malloc, free, new or delete and a size"),
        (["--peers", "nonesuch"], 1, "there is no peer 'nonesuch'"),
        (["--check", "--source", "/nonexistent"], 2, "there are no sources in /nonexistent"),
        (["--check", "glibc", "--size", "64"], 1, "has no debug information"),
    ],
)
def test_bad_questions(words: list[str | Path], status: int, complaint: str) -> None:
    done = hakmem("audit", *words)
    assert done.returncode == status, done.stdout
    assert complaint in done.stderr
