"""The programs of the suite; tools/packages/programs.txt has the packages that they are in."""

from __future__ import annotations

from hakmem_lab.programs import inputs
from hakmem_lab.programs.program import Program

PROGRAMS = (
    Program(
        "sqlite_memory",
        ("sqlite3", "-batch", ":memory:", ".read sqlite_memory.sql"),
        scripts=("sqlite_memory.sql",),
    ),
    Program(
        "sqlite_file",
        ("sqlite3", "-batch", "rows.db", ".read sqlite_file.sql"),
        scripts=("sqlite_file.sql",),
        makes=("rows.db",),
        leaves=("rows.db-wal", "rows.db-shm"),
    ),
    Program("python", ("python3", "-I", "records.py"), scripts=("records.py",)),
    # Python's own allocator for small objects put aside: all of them are malloc's.
    Program(
        "python_malloc",
        ("python3", "-s", "records.py"),
        scripts=("records.py",),
        variables={"PYTHONMALLOC": "malloc"},
    ),
    Program("perl", ("perl", "tables.pl"), scripts=("tables.pl",)),
    Program("ruby", ("ruby", "-W0", "objects.rb"), scripts=("objects.rb",)),
    Program("node", ("node", "buffers.js"), scripts=("buffers.js",)),
    Program("lua", ("lua5.4", "strings.lua"), scripts=("strings.lua",)),
    Program(
        "java",
        ("java", "-Xmx256m", "-XX:-UsePerfData", "Work.java"),
        scripts=("Work.java",),
    ),
    Program("gawk", ("gawk", "-f", "words.awk", "log.txt"), ("words.awk",), inputs.log),
    Program("bash", ("bash", "loops.sh"), scripts=("loops.sh",), needs=("sort", "head")),
    Program(
        "cmake",
        ("cmake", "-P", "lists.cmake"),
        scripts=("lists.cmake",),
        makes=("result.txt",),
    ),
    Program(
        "gcc",
        ("gcc", "-O2", "-c", "large.c", "-o", "large.o"),
        prepare=inputs.c_file,
        makes=("large.o",),
    ),
    Program(
        "gxx",
        ("g++", "-std=c++17", "-O1", "-c", "large.cc", "-o", "large.o"),
        prepare=inputs.cxx_file,
        makes=("large.o",),
    ),
    Program("git", ("bash", "git.sh"), ("git.sh",), inputs.repository, needs=("git",)),
    Program(
        "jq",
        ("jq", "-c", "-f", "select.jq", "people.json"),
        ("select.jq",),
        inputs.people,
    ),
    Program(
        "xmllint",
        ("xmllint", "--format", "items.xml", "--output", "out.xml"),
        prepare=inputs.document,
        makes=("out.xml",),
    ),
    Program(
        "sort",
        ("sort", "--parallel=2", "-S", "64M", "-o", "sorted.txt", "lines.txt"),
        prepare=inputs.lines,
        makes=("sorted.txt",),
    ),
    Program("z3", ("z3", "factor.smt2"), scripts=("factor.smt2",)),
    Program(
        "redis",
        ("bash", "redis.sh"),
        ("redis.sh",),
        inputs.redis_commands,
        needs=("redis-server", "redis-cli", "redis-benchmark"),
        leaves=("redis.sock",),
        brings_malloc=True,  # Debian links it with jemalloc
    ),
    Program(
        "nginx",
        ("bash", "nginx.sh"),
        ("nginx.sh",),
        inputs.website,
        needs=("nginx", "ab"),
    ),
)
