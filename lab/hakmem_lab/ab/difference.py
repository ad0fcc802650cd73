"""In which instructions two libraries differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

from hakmem_lab.ab.code import Function, Library

# Finding the smallest difference takes the square of the length; a longer function counts as a
# whole.
_LONGEST = 3000


@dataclass(frozen=True)
class Difference:
    """A function that is not the same in both. Addresses: its instructions that the other lacks."""

    function: str
    a: tuple[int, ...]
    b: tuple[int, ...]
    kind: str  # changed, added, removed


def differences(a: Library, b: Library) -> list[Difference]:
    """By name; a function that is only called differently (foo.cold, foo.part.0) is one too."""
    return list(_differences(a.functions, b.functions))


def _differences(a: Mapping[str, Function], b: Mapping[str, Function]) -> Iterator[Difference]:
    for name in sorted({*a, *b}):
        ours, theirs = a.get(name), b.get(name)
        if ours is None and theirs is not None:
            yield Difference(name, (), _addresses(theirs), "added")
        elif theirs is None and ours is not None:
            yield Difference(name, _addresses(ours), (), "removed")
        elif ours is not None and theirs is not None:
            ours = ours.worded_as(theirs)
            theirs = theirs.worded_as(ours)
            if ours.shape != theirs.shape:
                yield Difference(name, *_changed(ours, theirs), "changed")


def _addresses(function: Function) -> tuple[int, ...]:
    return tuple(each.address for each in function.instructions)


def _changed(a: Function, b: Function) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Instructions without a partner, and jumps whose targets are no partners."""
    if max(len(a.instructions), len(b.instructions)) > _LONGEST:
        return _addresses(a), _addresses(b)
    texts_a = [each.text for each in a.instructions]
    texts_b = [each.text for each in b.instructions]
    partner: dict[int, int] = {}
    for block in SequenceMatcher(None, texts_a, texts_b, autojunk=False).get_matching_blocks():
        partner.update((block.a + n, block.b + n) for n in range(block.size))
    led_astray = {
        mine
        for mine, other in partner.items()
        if (target := a.shape[mine][1]) is not None
        and not _same_place(target, b.shape[other][1], partner, len(texts_b))
    }
    kept = set(partner) - led_astray
    kept_b = {partner[each] for each in kept}
    return (
        tuple(each.address for n, each in enumerate(a.instructions) if n not in kept),
        tuple(each.address for n, each in enumerate(b.instructions) if n not in kept_b),
    )


def _same_place(target: int, other: int | None, partner: Mapping[int, int], length: int) -> bool:
    """A target in front of which something was put in is still the same place: what leads there
    meets the new instructions, and they are looked at themselves."""
    if other is None or target < 0 or other < 0:
        return target == other
    if target in partner:
        before = partner.get(target - 1, -1)
        return before < other <= partner[target]
    return other < length and other not in partner.values()
