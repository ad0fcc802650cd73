"""Self-contained HTML pages: tables and charts in one file that needs no network and no script.

A page is a title, perhaps a verdict, sections, and at its foot what the figures were measured with
and how to repeat them. The template is templates/page.html; it follows the reader's light or dark
screen, prints, and fits a telephone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal

from hakmem_lab import machine
from hakmem_lab.charts import palette
from hakmem_lab.charts.picture import Picture
from hakmem_lab.errors import LabError

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Cell:
    """A figure of a table that is set off: the best of its row, or surely better or worse."""

    text: str
    kind: Literal["", "best", "better", "worse", "muted"] = ""


@dataclass(frozen=True)
class Table:
    """The first cell of a row is its heading; the others are figures."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]


@dataclass(frozen=True)
class Section:
    """A heading, a sentence that says how to read what follows, and pictures and tables."""

    heading: str
    blocks: Sequence[Picture | Table]
    lead: str = ""


def write(
    path: Path,
    title: str,
    sections: Sequence[Section],
    content: Mapping[str, Any],
    verdicts: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> None:
    """Writes the page. content: the document whose figures these are, for the page's foot; it may
    be a document of any command that holds `machine`, `command` and `created`. notes: what is
    missing and what failed."""
    text = render(title, sections, content, verdicts, notes)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise LabError(f"cannot write {path}: {error.strerror}") from None


def render(
    title: str,
    sections: Sequence[Section],
    content: Mapping[str, Any],
    verdicts: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> str:
    import jinja2
    from markupsafe import Markup

    loader = jinja2.FileSystemLoader(_TEMPLATES)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    number = count(1)
    # ElementTree made the SVG, so what was text is escaped already.
    environment.filters["svg"] = lambda picture: Markup(picture.html(f"p{next(number)}"))
    environment.tests["picture"] = lambda block: isinstance(block, Picture)
    environment.filters["cell"] = lambda cell: cell if isinstance(cell, Cell) else Cell(cell)
    return environment.get_template("page.html").render(
        title=title,
        sections=sections,
        verdicts=verdicts,
        notes=notes,
        facts=_facts(content),
        command=content.get("command", ""),
        light=palette.variables(dark=False),
        dark=palette.variables(dark=True),
    )


def _facts(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the figures were measured with, as far as the document says it."""
    facts = []
    if "created" in content:
        facts.append(
            ("Measured", str(content["created"]).replace("T", " ").replace("+00:00", " UTC"))
        )
    facts += [
        (f"The {side} result", f"{content[side]['created']}: {content[side]['command']}")
        for side in ("old", "new")
        if side in content
    ]
    if "machine" in content:
        facts.append(("Machine", machine.sentence(content["machine"])))
    for row in content.get("allocators", ()):
        parts = [row.get("version"), row.get("from"), row.get("options")]
        facts.append((row["name"], ", ".join(part for part in parts if part)))
    if "seed" in content:
        proof = "in every run, each process was seen to call the malloc and free of its allocator"
        facts.append(("Proof", proof))
        warmup, runs = content.get("warmup", 0), content["runs"]
        order = (
            f"{runs} interleaved after {warmup} for warming up; order drawn from {content['seed']}"
        )
        facts.append(("Runs", order))
    return facts
