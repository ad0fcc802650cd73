"""python3 under the tests of Python itself (Debian's libpython3.11-testsuite)."""

from xml.etree import ElementTree

import pytest

from harness import Side, Sides, run

MODULES = (
    "test_list",
    "test_dict",
    "test_json",
    "test_re",
    "test_threading",
    "test_subprocess",
    "test_multiprocessing_fork",
)


def outcomes(side: Side, module: str, environment: dict[str, str]) -> dict[str, str]:
    """The outcome of each test function, from the report that regrtest writes."""
    report = f"{module}.xml"
    command = ("/usr/bin/python3", "-m", "test", "--junit-xml", report, module)
    run(side, *command, timeout=280, environment=environment)
    cases = ElementTree.parse(side.work / report).iter("testcase")
    return {
        case.get("name", ""): " ".join([case.get("result", ""), *(part.tag for part in case)])
        for case in cases
    }


# pymalloc is Python's default and keeps small objects away from malloc, so the quick modules run
# without it too. The last two start hundreds of processes and mostly wait: once is enough.
CASES = [(module, "pymalloc") for module in MODULES] + [
    (module, "malloc") for module in MODULES[:5]
]


@pytest.mark.parametrize(("module", "allocator"), CASES)
def test_module(sides: Sides, module: str, allocator: str) -> None:
    environment = {"PYTHONMALLOC": allocator}
    glibc, hakmem = sides.at_once(lambda side: outcomes(side, module, environment))
    assert len(glibc) > 20 and "completed" in glibc.values()
    assert hakmem == glibc
