"""The colours of charts and pages. A role ("ink") or an allocator has a light and a dark shade.

Pages name colours as CSS variables (`var(--ink)`), and the style sheet gives them their shade for
the reader's light or dark screen. matplotlib knows no variables, so charts for a page are drawn in
stand-ins, which picture.py replaces; those for a PNG file are drawn in the light shades.
"""

from __future__ import annotations

from dataclasses import dataclass

# Role: light, dark. Text keeps a contrast of 4.5 to 1 against `paper` and `card`, marks one of 3.
SHADES = {
    "paper": ("#ffffff", "#14171c"),
    "card": ("#f6f7f9", "#1c2027"),
    "ink": ("#1b1f24", "#e6e9ee"),
    "muted": ("#57606a", "#9aa4b1"),
    "rule": ("#d5dae0", "#363d47"),
    "band": ("#eef1f4", "#20252d"),
    "better": ("#12692f", "#5fd38a"),
    "worse": ("#b3261e", "#ff8a80"),
    "hakmem": ("#0b5cd5", "#6ea8ff"),
    "glibc": ("#5b6470", "#aab3bf"),
    "mimalloc": ("#c2410c", "#fb923c"),
    "tcmalloc": ("#15803d", "#4ade80"),
    "jemalloc": ("#a21caf", "#e879f9"),
    "snmalloc": ("#0e7490", "#22d3ee"),
    "rpmalloc": ("#9f1239", "#fb7185"),
    "scudo": ("#4d7c0f", "#a3e635"),
    "stub": ("#7d8590", "#7d8590"),
}

# Allocators differ by shape too, for eyes and printers that see no colour.
_MARKERS = {
    "hakmem": "o",
    "glibc": "s",
    "mimalloc": "^",
    "tcmalloc": "D",
    "jemalloc": "v",
    "snmalloc": "P",
    "rpmalloc": "X",
    "scudo": "<",
    "stub": "|",
}
_NAMELESS = ("mimalloc", "tcmalloc", "jemalloc", "snmalloc", "rpmalloc", "scudo")


@dataclass(frozen=True)
class Palette:
    """A colour for each role, in the form that matplotlib is to draw in."""

    colours: dict[str, str]

    def __getitem__(self, role: str) -> str:
        return self.colours[role]

    def series(self, name: str, number: int) -> str:
        """An allocator's own colour; for another name, one by its place."""
        return self.colours[_stand_in(name, number)]


def marker(name: str, number: int) -> str:
    return _MARKERS[_stand_in(name, number)]


def _stand_in(name: str, number: int) -> str:
    return name if name in _MARKERS else _NAMELESS[number % len(_NAMELESS)]


# Shades that nobody would choose, so that a replacement meets nothing else.
STAND_INS = {role: f"#fe01{number:02x}" for number, role in enumerate(SHADES)}
FOR_PAGES = Palette(STAND_INS)
LIGHT = Palette({role: light for role, (light, _) in SHADES.items()})


def variables(dark: bool) -> str:
    """The variables of one colour scheme, as CSS declarations."""
    return " ".join(f"--{role}: {shades[dark]};" for role, shades in SHADES.items())
