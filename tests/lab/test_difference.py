"""Two results of the same benchmarks: what has changed, how sure that is, what else differs."""

import json
from pathlib import Path

import pytest

from hakmem_lab import report
from hakmem_lab.difference import Difference, main_metrics
from hakmem_lab.errors import LabError
from hakmem_lab.report import View
from support import document_of, hakmem, samples_of


def result(ns: float, benchmark: str = "pair_16") -> report.Document:
    values = {
        (benchmark, "hakmem"): {
            "ns_per_op": [ns, ns * 1.01, ns * 0.99],
            "peak_rss_bytes": [2e6] * 3,
            "page_faults": [0.0] * 3,
        },
        (benchmark, "glibc"): {"ns_per_op": [10.0, 9.9, 10.1], "peak_rss_bytes": [1e6] * 3},
    }
    return document_of(samples_of(values))


def test_new_over_old_with_an_interval() -> None:
    difference = Difference(View(result(4.0)), View(result(5.0)))
    ratio = difference.ratio("pair_16", "hakmem", "ns_per_op")
    assert ratio is not None
    assert ratio.value == pytest.approx(1.25)
    assert 1.2 < ratio.low < 1.25 < ratio.high < 1.3
    unmoved = difference.ratio("pair_16", "glibc", "ns_per_op")
    assert unmoved is not None
    assert unmoved.low < 1 < unmoved.high
    assert difference.ratio("pair_16", "hakmem", "page_faults") is None  # 0 over 0
    assert difference.mean_ratio("hakmem", "ns_per_op") == pytest.approx(1.25)
    assert main_metrics(difference.metrics()) == ["ns_per_op", "peak_rss_bytes"]


def test_what_else_differs_is_told() -> None:
    old, new = result(4.0), result(5.0)
    assert Difference(View(old), View(new)).notes() == []
    old["machine"] = {**old["machine"], "kernel": "6.1"}
    old["allocators"][0]["version"] = "0.9"
    old["results"].append({**old["results"][0], "benchmark": "gone"})
    notes = Difference(View(old), View(new)).notes()
    assert notes[0].startswith("the machines differ: kernel 6.1 → ")
    assert notes[1:] == ["hakmem: 0.9 → 1.0", "only in the old result: gone"]


def test_results_of_other_things_are_no_comparison() -> None:
    with pytest.raises(LabError, match="have no benchmark"):
        Difference(View(result(4.0)), View(result(4.0, "pair_64")))


def test_the_command_shows_and_compares(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    report.write(old, result(4.0))
    report.write(new, result(5.0))
    shown = hakmem("results", "show", new, "--html", tmp_path / "new.html")
    assert shown.returncode == 0, shown.stderr
    assert "5.00" in shown.stdout
    assert "pair_16" in (tmp_path / "new.html").read_text()
    done = hakmem("results", "diff", old, new, "--json", tmp_path / "d.json",
                  "--html", tmp_path / "d.html")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "1.250" in done.stdout
    changes = json.loads((tmp_path / "d.json").read_text())["changes"]
    (change,) = (
        row for row in changes if (row["allocator"], row["metric"]) == ("hakmem", "ns_per_op")
    )
    assert change["ratio"] == pytest.approx(1.25)
    assert "new over old" in (tmp_path / "d.html").read_text()


def test_pictures_of_a_result(tmp_path: Path) -> None:
    report.write(tmp_path / "r.json", result(4.0))
    done = hakmem("results", "show", tmp_path / "r.json", "--png", tmp_path / "picture.png")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.glob("*.png")} == {
        "picture-ns_per_op.png",
        "picture-peak_rss_bytes.png",
    }
