"""Pages and pictures: whole, readable without a network, and with the figures in them."""

import os
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

from hakmem_lab import page, pages
from hakmem_lab.charts import palette
from hakmem_lab.charts.picture import Picture
from hakmem_lab.charts.spread import spread
from hakmem_lab.charts.suite import over_subject
from hakmem_lab.charts.timeline import timeline
from hakmem_lab.errors import LabError
from hakmem_lab.report import View
from support import document_of, hakmem, samples_of

VOID = {"meta", "link", "br", "img", "hr", "input", "col"}
SVG = "{http://www.w3.org/2000/svg}"

PROGRAM = {
    ("job", name): {
        "wall_s": [time, time * 1.01, time * 0.99],
        "peak_rss_bytes": [size * 2.0**20] * 3,
        "page_faults": [1000.0] * 3,
    }
    for name, time, size in (("hakmem", 0.9, 3), ("glibc", 1.0, 2), ("mimalloc", 0.8, 40))
}
SUITE = {
    (f"pair_{size}", name): {"ns_per_op": [ns, ns * 1.1, ns * 0.9]}
    for size in (16, 64)
    for name, ns in (("hakmem", 5.0), ("stub", 4.9), ("glibc", 10.0), ("mimalloc", 300.0))
}


def view(values: dict[tuple[str, str], dict[str, list[float]]]) -> View:
    return View(document_of(samples_of(values), missing={"snmalloc": "no <cargo> & co"}))


class Checker(HTMLParser):
    """Notes tags that are not closed in order, every reference, all identities and the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.references: list[str] = []
        self.identities: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self._note(attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def _note(self, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src", "xlink:href"):
                self.references.append(value or "")
            if name == "id":
                self.identities.append(value or "")


def check_page(text: str) -> Checker:
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert not checker.open
    assert len(checker.identities) == len(set(checker.identities))
    for reference in checker.references:
        assert reference.startswith("#")
        assert reference[1:] in checker.identities
    assert "url(http" not in text
    assert "@import" not in text
    assert "<script" not in text
    for identity in re.findall(r"url\(#([^)]+)\)", text):
        assert identity in checker.identities
    return checker


def test_the_page_of_a_program(tmp_path: Path) -> None:
    target = tmp_path / "new folder" / "page.html"
    pages.write(target, view(PROGRAM))
    text = check_page(target.read_text()).text
    count = len(os.sched_getaffinity(0))
    for words in (
        "job under 3 allocators",
        "HAKMEM against glibc: 10 % faster",
        "HAKMEM against mimalloc, the fastest of the others",
        "900 ms",
        "40.0 MiB",
        "Missing: snmalloc (no <cargo> & co)",
        "hakmem bench",
        f"{count} processor" if count == 1 else f"{count} processors",
    ):
        assert words in text


def test_the_page_of_a_suite() -> None:
    sections = pages.suite(view(SUITE))
    text = check_page(page.render("title", sections, document_of(samples_of(SUITE)))).text
    assert "pair_16" in text
    assert "300" in text


def test_cells_are_judged_against_the_subject() -> None:
    (section,) = pages.suite(view(SUITE))
    (table,) = (block for block in section.blocks if isinstance(block, page.Table))
    kinds = [cell.kind if isinstance(cell, page.Cell) else "" for cell in table.rows[0][1:]]
    assert table.header == ["benchmark", "hakmem", "stub", "glibc", "mimalloc"]
    assert kinds == ["best", "muted", "worse", "worse"]


def pictures() -> list[Picture]:
    over = over_subject(view(SUITE), "ns_per_op")
    assert over is not None
    lines = {"hakmem": ([0.0, 1.0], [5.0, 6.0]), "a <b>": ([0.0, 1.0], [7.0, 8.0])}
    return [
        spread(view(PROGRAM), "job", "wall_s", "glibc"),
        spread(view(PROGRAM), "job", "peak_rss_bytes", "glibc"),  # a logarithmic axis
        spread(view(PROGRAM), "job", "page_faults", "glibc"),  # nothing differs
        over,
        timeline(lines, "MiB", "memory & time"),
    ]


@pytest.mark.parametrize("number", range(5))
def test_a_picture_is_well_formed_told_in_words_and_coloured_by_the_page(number: int) -> None:
    picture = pictures()[number]
    wrapped = ET.fromstring(f"<div>{picture.html('p1')}</div>")
    renditions = list(wrapped)
    assert len(renditions) == (2 if picture.wide else 1)
    for svg in renditions:
        assert svg.tag == f"{SVG}svg"
        assert [svg[0].tag, svg[1].tag] == [f"{SVG}title", f"{SVG}desc"]
        assert svg[0].text == picture.title
        assert svg[1].text == picture.description
    text = picture.html("p1")
    assert "var(--ink)" in text
    assert not [stand_in for stand_in in palette.STAND_INS.values() if stand_in in text]
    assert "DejaVu" not in text


def test_labels_of_a_picture_are_text() -> None:
    svg = ET.fromstring(pictures()[0].html("p1"))
    words = ["".join(element.itertext()) for element in svg.iter(f"{SVG}text")]
    assert {"hakmem", "glibc", "mimalloc", "900 ms", "1,000 ms", "Time, ms"} <= set(words)


def test_a_picture_as_a_file(tmp_path: Path) -> None:
    picture = pictures()[3]
    picture.write(tmp_path / "a" / "p.png")
    assert (tmp_path / "a" / "p.png").read_bytes().startswith(b"\x89PNG")
    picture.write(tmp_path / "p.svg")
    root = ET.parse(tmp_path / "p.svg").getroot()
    assert root.tag == f"{SVG}svg"
    assert "prefers-color-scheme: dark" in (root[0].text or "")
    with pytest.raises(LabError, match=r"\.png or \.svg"):
        picture.write(tmp_path / "p.gif")


def test_nothing_to_compare_is_no_picture() -> None:
    alone = {key: value for key, value in SUITE.items() if key[1] in ("hakmem", "stub")}
    assert over_subject(view(alone), "ns_per_op") is None
    check_page(page.render("title", pages.suite(view(alone)), {}))


def test_every_role_has_text_contrast() -> None:
    """WCAG: 4.5 to 1 for text, 3 to 1 for marks, on both backgrounds."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for role, shades in palette.SHADES.items():
        if role in ("paper", "card", "rule", "band"):
            continue
        for scheme in (0, 1):
            for ground in ("paper", "card"):
                pair = sorted(
                    (luminance(shades[scheme]), luminance(palette.SHADES[ground][scheme]))
                )
                ratio = (pair[1] + 0.05) / (pair[0] + 0.05)
                wanted = 4.5 if role in ("ink", "muted", "better", "worse") else 3
                assert ratio >= wanted, (role, scheme, ground, ratio)


def test_the_page_of_a_job_that_failed_everywhere(tmp_path: Path) -> None:
    samples = samples_of({})
    samples.fail(("job", "hakmem"), "was ended by SIGSEGV")
    samples.fail(("job", "glibc"), "ended with status 1")
    pages.write(tmp_path / "page.html", View(document_of(samples)))
    text = check_page((tmp_path / "page.html").read_text()).text
    assert "job: all runs failed" in text
    assert "Failed: job under hakmem: was ended by SIGSEGV" in text


def test_compare_writes_a_page(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    done = hakmem("compare", "--peers", "glibc", "--runs", "2", "--html", target, "--", "true")
    assert done.returncode == 0, done.stderr
    text = check_page(target.read_text()).text
    assert "true under 2 allocators" in text
    assert "HAKMEM against glibc" in text
