"""A picture: drawn by matplotlib, shown as SVG in a page or written as a file.

In a page its colours are CSS variables and its letters are text in the page's font, so it follows
the reader's light or dark screen, can be searched, and stays sharp. A wide picture is drawn twice,
for wide and for narrow screens, and the style sheet shows the one that fits: an SVG that is shrunk
to the width of a telephone cannot be read.
"""

from __future__ import annotations

import io
import logging
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hakmem_lab.charts import palette
from hakmem_lab.charts.palette import Palette
from hakmem_lab.errors import LabError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# In points, which are CSS pixels in a page.
NARROW = 360
WIDE = 760
_TEXT = 11
_PNG_DPI = 144

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_FONTS = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif"

Draw = Callable[[int, Palette], "Figure"]


@dataclass(frozen=True)
class Picture:
    """draw(width, colours) makes the figure. The description is for those who cannot see it."""

    title: str
    description: str
    draw: Draw
    wide: bool = False

    def html(self, identity: str) -> str:
        """Inline SVG for a page; identity tells this picture's names from those of others."""
        if not self.wide:
            return self._svg(identity, NARROW, "")
        return self._svg(f"{identity}w", WIDE, "for-wide") + self._svg(
            f"{identity}n", NARROW, "for-narrow"
        )

    def write(self, path: Path) -> None:
        """A file of its own: .png, or .svg with both colour schemes."""
        width = WIDE if self.wide else NARROW
        if path.suffix not in (".png", ".svg"):
            raise LabError(f"a picture is written as .png or .svg, not as {path.name}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".png":
                figure = self._figure(width, palette.LIGHT)
                figure.savefig(path, dpi=_PNG_DPI, facecolor=palette.LIGHT["paper"])
            else:
                path.write_text(_standing_alone(self._svg("p", width, "")), encoding="utf-8")
        except OSError as error:
            raise LabError(f"cannot write {path}: {error.strerror}") from None

    def _figure(self, width: int, colours: Palette) -> Figure:
        with _settings(_style(colours)):
            return self.draw(width, colours)

    def _svg(self, identity: str, width: int, css_class: str) -> str:
        figure = self._figure(width, palette.FOR_PAGES)
        text = io.StringIO()
        with _settings({"svg.fonttype": "none", "svg.hashsalt": identity}):
            figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
        return _for_pages(text.getvalue(), self, identity, css_class)


def new_figure(width: int, height: float) -> tuple[Figure, Axes]:
    """An empty figure with one set of axes; width and height in points."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)
    axes.set_axisbelow(True)
    return figure, axes


def _settings(values: dict[Any, Any]) -> AbstractContextManager[None]:
    # On import it tells of a cache of fonts that it builds, or that it has no place for.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    import matplotlib

    return matplotlib.rc_context(values)


def _style(colours: Palette) -> dict[Any, Any]:
    return {
        "font.size": _TEXT,
        "text.parse_math": False,  # a dollar in a name is a dollar
        "axes.titlesize": _TEXT + 1,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.titlepad": 8,
        "axes.labelsize": _TEXT,
        "axes.labelcolor": colours["muted"],
        "axes.titlecolor": colours["ink"],
        "axes.edgecolor": colours["rule"],
        "axes.facecolor": "none",
        "text.color": colours["ink"],
        "xtick.color": colours["muted"],
        "ytick.color": colours["ink"],
        "grid.color": colours["rule"],
        "grid.linewidth": 0.8,
        "legend.frameon": False,
        "legend.fontsize": _TEXT - 0.5,
        "legend.labelcolor": colours["ink"],
    }


def _for_pages(svg: str, picture: Picture, identity: str, css_class: str) -> str:
    """Colours as variables, the page's font, names of its own, and a title for screen readers."""
    for role, stand_in in palette.STAND_INS.items():
        svg = svg.replace(stand_in, f"var(--{role})")
    svg = re.sub(r"font: ([^;\"']*?)([\d.]+px) [^;\"]+", r"font-size: \2; \1", svg)
    svg = re.sub(r"font-family: [^;\"]+;?", "", svg)
    svg = re.sub(r"font-size: ([\d.]+px); (?:(bold|\d+) )?", _weight, svg)
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _XLINK)
    root = ET.fromstring(svg)
    metadata = root.find(f"{{{_SVG}}}metadata")
    if metadata is not None:
        root.remove(metadata)
    _rename(root, identity)
    for tag, text in (("desc", picture.description), ("title", picture.title)):
        element = ET.Element(f"{{{_SVG}}}{tag}", {"id": f"{identity}-{tag}"})
        element.text = text
        root.insert(0, element)
    _, _, width, height = root.attrib["viewBox"].split()
    root.attrib.pop("version", None)
    root.attrib |= {
        "width": width,
        "height": height,
        "class": f"chart {css_class}".strip(),
        "role": "img",
        "aria-labelledby": f"{identity}-title {identity}-desc",
    }
    return ET.tostring(root, encoding="unicode")


def _weight(found: re.Match[str]) -> str:
    weight = f"font-weight: {found[2]}; " if found[2] else ""
    return f"font-size: {found[1]}; {weight}"


def _rename(root: ET.Element, identity: str) -> None:
    """Names that nothing refers to go; the others are made the picture's own."""
    text = ET.tostring(root, encoding="unicode")
    used = set(re.findall(r"(?:href=\"#|url\(#)([^\")]+)", text))
    for element in root.iter():
        name = element.attrib.pop("id", None)
        if name in used:
            element.attrib["id"] = f"{identity}-{name}"
        for key, value in element.attrib.items():
            if value.startswith("#") and key.endswith("href"):
                element.attrib[key] = f"#{identity}-{value[1:]}"
            elif "url(#" in value:
                element.attrib[key] = value.replace("url(#", f"url(#{identity}-")


def _standing_alone(svg: str) -> str:
    style = (
        f"<style>svg {{ {palette.variables(False)} background: var(--paper); }} "
        f"text {{ font-family: {escape(_FONTS, quote=False)}; }} "
        f"@media (prefers-color-scheme: dark) {{ svg {{ {palette.variables(True)} }} }}</style>"
    )
    return svg.replace(">", f">{style}", 1) + "\n"
