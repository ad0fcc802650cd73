"""The JSON that others read, and what the tables say about it."""

import io
import json
import math
from pathlib import Path

import pytest
from rich.console import Console

from hakmem_lab import metrics, report, tables, verdicts
from hakmem_lab.errors import LabError
from hakmem_lab.report import View
from support import document_of, hakmem, samples_of

TIMES = {
    ("pair_16", "hakmem"): {"ns_per_op": [5.0, 5.1, 4.9], "peak_rss_bytes": [2e6] * 3},
    ("pair_16", "glibc"): {"ns_per_op": [10.0, 10.2, 9.8], "peak_rss_bytes": [1e6] * 3},
    ("pair_16", "stub"): {"ns_per_op": [4.0, 4.1, 3.9], "peak_rss_bytes": [1e6] * 3},
}


def check_schema(content: report.Document) -> None:
    """The schema that others rely on, field by field."""
    assert content["schema"] == 1
    assert isinstance(content["machine"], dict)
    assert content["machine"]["cpu"]
    assert content["results"]
    for row in content["results"]:
        assert {
            "benchmark",
            "allocator",
            "metric",
            "unit",
            "better",
            "samples",
            "median",
            "ci95",
        } <= set(row)
        assert row["better"] in ("lower", "higher")
        assert all(
            isinstance(row[name], str) for name in ("benchmark", "allocator", "metric", "unit")
        )
        assert row["samples"]
        assert all(isinstance(sample, (int, float)) for sample in row["samples"])
        low, high = row["ci95"]
        assert low <= row["median"] <= high
        assert all(math.isfinite(value) for value in (low, high, row["median"]))


def test_schema_of_made_up_samples() -> None:
    content = json.loads(json.dumps(document_of(samples_of(TIMES))))
    check_schema(content)
    assert len(content["results"]) == 6
    assert content["results"][0]["samples"] == [5.0, 5.1, 4.9]


def test_ratios_are_the_subject_over_each_other() -> None:
    content = document_of(samples_of(TIMES))
    ratios = {(row["base"], row["metric"]): row for row in content["ratios"]}
    assert set(ratios) == {
        (base, m) for base in ("glibc", "stub") for m in ("ns_per_op", "peak_rss_bytes")
    }
    assert ratios["glibc", "ns_per_op"]["ratio"] == pytest.approx(0.5)
    low, high = ratios["glibc", "ns_per_op"]["ci95"]
    assert low < 0.5 < high < 1


def test_schema_of_compare(tmp_path: Path) -> None:
    target = tmp_path / "new folder" / "result.json"
    done = hakmem("compare", "--peers", "glibc", "--runs", "2", "--json", target, "--", "true")
    assert done.returncode == 0, done.stderr
    content = json.loads(target.read_text())
    check_schema(content)
    assert {row["allocator"] for row in content["results"]} == {"hakmem", "glibc"}
    assert {row["metric"] for row in content["results"]} == {
        "wall_s",
        "cpu_s",
        "peak_rss_bytes",
        "page_faults",
        "context_switches",
        "syscalls",
        "memory_syscalls",
    }
    assert content["verdict"].startswith("HAKMEM against glibc: ")
    assert content["base"] == "glibc"
    assert all(len(row["samples"]) == 2 for row in content["results"])


def test_what_is_no_result_is_refused(tmp_path: Path) -> None:
    for text in ("[]", '{"schema": 2}', "not JSON"):
        page = tmp_path / "result.json"
        page.write_text(text)
        with pytest.raises(LabError):
            report.read(page)
    with pytest.raises(LabError, match="cannot read"):
        report.read(tmp_path / "missing.json")


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match="cannot write"):
        report.write(tmp_path / "file" / "result.json", document_of(samples_of(TIMES)))


def printed(print_it: object, *arguments: object) -> str:
    console = Console(file=io.StringIO(), width=200)
    assert callable(print_it)
    print_it(console, *arguments)
    stream = console.file
    assert isinstance(stream, io.StringIO)
    return stream.getvalue()


def test_the_best_is_set_off_and_the_stub_never_is() -> None:
    view = View(document_of(samples_of(TIMES)))
    cells = tables.grid_cells(view, "pair_16", ["hakmem", "stub", "glibc"], "ns_per_op", "markdown")
    assert cells == ["**5.00**", "4.00", "10.0"]


def test_ratios_table_has_the_interval_and_the_mean() -> None:
    text = printed(tables.ratios, View(document_of(samples_of(TIMES))), "hakmem", "ns_per_op")
    assert "0.500\N{NO-BREAK SPACE}(0.4" in text
    assert "geometric mean" in text


def test_no_ratios_of_one_run() -> None:
    text = printed(
        tables.ratios, View(document_of(samples_of(TIMES), runs=1)), "hakmem", "ns_per_op"
    )
    assert text == "One run says nothing about the next: no ratios.\n"


def test_tables_have_only_rows_with_the_metric_in_its_unit() -> None:
    values = {
        ("startup", "glibc"): {
            "private_bytes": [112 * 1024.0] * 3,
            "peak_rss_bytes": [2.0**20] * 3,
        },
        ("phases", "glibc"): {
            "rss_after_bytes": [50 * 2.0**20] * 3,
            "peak_rss_bytes": [2.0**20] * 3,
        },
    }
    view = View(document_of(samples_of(values)))
    small = printed(tables.grid, view, "private_bytes")
    assert "Memory of one more process in KiB" in " ".join(small.split())
    assert "112" in small and "phases" not in small
    after = printed(tables.grid, view, "rss_after_bytes")
    assert "in MiB" in " ".join(after.split()) and "50.0" in after and "startup" not in after
    assert printed(tables.grid, view, "fragmentation") == ""
    assert "startup" not in printed(tables.grid, view, "peak_rss_bytes", ["phases"])


def verdict(values: dict[tuple[str, str], dict[str, list[float]]], base: str) -> list[str]:
    return verdicts.sentences(View(document_of(samples_of(values))), "job", base)


def job(times: list[float], bytes_: float) -> dict[str, list[float]]:
    return {"wall_s": times, "peak_rss_bytes": [bytes_] * 3}


def test_verdict_says_which_way_and_how_sure() -> None:
    values = {("job", "hakmem"): job([0.9, 0.91, 0.89], 3e6), ("job", "glibc"): job([1.0] * 3, 2e6)}
    (sentence,) = verdict(values, "glibc")
    assert sentence == "HAKMEM against glibc: 10 % faster (9–11 %), 50.0 % larger (50.0–50.0 %)."


def test_verdict_names_the_fastest_of_the_others_too() -> None:
    values = {
        ("job", "hakmem"): job([0.9, 0.91, 0.89], 2e6),
        ("job", "glibc"): job([1.0] * 3, 2e6),
        ("job", "mimalloc"): job([0.8] * 3, 4e6),
        ("job", "stub"): job([0.1] * 3, 1e6),
    }
    first, second = verdict(values, "glibc")
    assert first.startswith("HAKMEM against glibc: 10 % faster")
    assert "the same peak memory" in first
    assert second.startswith("HAKMEM against mimalloc, the fastest of the others: 12 % slower")
    assert second.endswith("50.0 % smaller (50.0–50.0 %).")
    (only,) = verdict(values, "mimalloc")
    assert only.startswith("HAKMEM against mimalloc: 12 % slower")


def test_verdict_admits_noise() -> None:
    values = {
        ("job", "hakmem"): job([0.8, 1.0, 1.2], 2e6),
        ("job", "glibc"): job([0.9, 1.01, 1.1], 2e6),
    }
    (sentence,) = verdict(values, "glibc")
    assert "no difference in time that these runs can show (−27 to +33 %)" in sentence


def test_verdict_of_one_run_or_of_a_failed_side_is_none() -> None:
    samples = samples_of({("job", "hakmem"): {"wall_s": [1.0], "peak_rss_bytes": [1.0]}})
    assert verdicts.sentences(View(document_of(samples, runs=1)), "job", "glibc") == [
        verdicts.TOO_FEW
    ]
    samples.fail(("job", "glibc"), "was ended by SIGSEGV")
    assert verdicts.sentences(View(document_of(samples)), "job", "glibc") == []


def test_missing_and_failed_are_told() -> None:
    samples = samples_of(TIMES)
    samples.fail(("pair_64", "rpmalloc"), "was ended by SIGSEGV")
    view = View(document_of(samples, missing={"snmalloc": "no cargo"}))
    text = printed(tables.trouble, view)
    assert "missing: snmalloc (no cargo)" in text
    assert "failed: pair_64 under rpmalloc: was ended by SIGSEGV" in text


@pytest.mark.parametrize(
    ("value", "metric", "text"),
    [
        (0.01234, "wall_s", "12.3 ms"),
        (1.5, "wall_s", "1,500 ms"),
        (250.0, "wall_s", "250.0 s"),
        (3 * 2**20, "peak_rss_bytes", "3.0 MiB"),
        (12345, "page_faults", "12,345"),
        (4.567, "ns_per_op", "4.57"),
        (351.2, "ns_per_op", "351"),
    ],
)
def test_figures_have_three_digits_and_a_unit(value: float, metric: str, text: str) -> None:
    assert metrics.figure(value, metric) == text
