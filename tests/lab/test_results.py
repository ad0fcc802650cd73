"""README's tables come from the results and from nowhere else."""

from pathlib import Path

import pytest

from hakmem_lab import report, results
from hakmem_lab.errors import LabError
from support import document_of, samples_of

PAGE = """\
# Title

<!-- results micro ns_per_op -->
old
<!-- end of results -->

Between.

<!-- results job -->
<!-- end of results -->

The end.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    micro = samples_of(
        {
            ("pair_64", "hakmem"): {"ns_per_op": [5.0] * 3},
            ("pair_16", "hakmem"): {"ns_per_op": [4.0] * 3},
            ("pair_16", "glibc"): {"ns_per_op": [8.0] * 3},
        }
    )
    micro.fail(("pair_64", "glibc"), "was ended by SIGABRT")
    job = samples_of(
        {
            ("sqlite3", name): {
                "wall_s": [0.5] * 3,
                "cpu_s": [0.4] * 3,
                "peak_rss_bytes": [2.0**24] * 3,
                "page_faults": [1234.0] * 3,
            }
            for name in ("hakmem", "glibc")
        }
    )
    report.write(tmp_path / "micro.json", document_of(micro, missing={"snmalloc": "no cargo"}))
    report.write(tmp_path / "job.json", document_of(job))
    return tmp_path


def test_tables_are_made_between_the_marks(folder: Path) -> None:
    text = results.render(PAGE, folder)
    assert "old" not in text
    assert "| ns per operation | hakmem | glibc |\n| --- | ---: | ---: |\n" in text
    assert "| pair_16 | **4.00** | 8.00 |\n| pair_64 | **5.00** | – |\n" in text
    assert "| glibc | 500 ms | 400 ms | 16.0 MiB | 1,234 |" in text
    assert text.startswith("# Title\n")
    assert "\nBetween.\n" in text
    assert text.endswith("\nThe end.\n")


def test_geometric_means_over_one_allocator(folder: Path) -> None:
    page = "<!-- results micro ns_per_op over glibc -->\nold\n<!-- end of results -->\n"
    # pair_64 failed under glibc, and is in no mean.
    assert "| hakmem | 0.500 | 0.500–0.500 | 1 of 1 | 0.50 |\n" in results.render(page, folder)
    with pytest.raises(LabError, match="no results of 'scudo'"):
        results.render(page.replace("glibc", "scudo"), folder)
    with pytest.raises(LabError, match="no metric 'speed'"):
        results.render(page.replace("ns_per_op", "speed"), folder)


def test_the_caption_says_how_to_repeat_it_and_what_is_not_there(folder: Path) -> None:
    text = results.render(PAGE, folder)
    assert "Medians of 3 interleaved runs" in text
    assert "Again with: `hakmem bench`" in text
    assert "Missing: snmalloc." in text
    assert "Failed: pair_64 under glibc." in text


def test_making_them_again_changes_nothing(folder: Path) -> None:
    page = folder / "README.md"
    page.write_text(PAGE)
    assert not results.update(page, folder, check=False)
    once = page.read_text()
    assert results.update(page, folder, check=False)
    assert page.read_text() == once


def test_check_notices_an_edited_figure_and_leaves_it(folder: Path) -> None:
    page = folder / "README.md"
    page.write_text(results.render(PAGE, folder))
    assert results.update(page, folder, check=True)
    edited = page.read_text().replace("4.00", "3.00")
    page.write_text(edited)
    assert not results.update(page, folder, check=True)
    assert page.read_text() == edited


@pytest.mark.parametrize(
    "page", ["no table here", "<!-- results nothing -->\n<!-- end of results -->",
             "<!-- results micro speed -->\n<!-- end of results -->"]
)  # fmt: skip
def test_a_page_that_cannot_be_made_is_an_error(folder: Path, page: str) -> None:
    with pytest.raises(LabError):
        results.render(page, folder)
