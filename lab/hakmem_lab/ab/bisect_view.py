"""The outcome of `hakmem bisect`, for people and as JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hakmem_lab import machine
from hakmem_lab.ab.bisecting import BAD, GOOD, SKIP, Find, Hunt, Step
from hakmem_lab.ab.verdict import interval, percent
from hakmem_lab.report import SCHEMA
from hakmem_lab.stats import Estimate

_COLOURS = {GOOD: "green", BAD: "red", SKIP: "yellow"}


def one_line(step: Step) -> str:
    """As soon as it is known."""
    return (
        f"[{_COLOURS[step.answer]}]{step.answer:<4}[/{_COLOURS[step.answer]}] "
        f"{escape(step.subject)}: {escape(step.reason)}{_figures(step.ratio)}"
    )


def _figures(ratio: Estimate | None) -> str:
    return f" ({percent(ratio.value)}, {interval(ratio)})" if ratio else ""


def show(console: Console, find: Find, hunt: Hunt) -> None:
    console.print(_table(find, hunt))
    if find.culprit is not None:
        subject = next((s.subject for s in find.steps if s.commit == find.culprit), hunt.bad.origin)
        console.print(
            f"[red]{escape(subject)}[/red] made {escape(hunt.workload.name)} slower. "
            f"BAD over GOOD: {percent(find.difference.effect.value)} "
            f"({interval(find.difference.effect)}).",
            highlight=False,
            soft_wrap=True,
        )
        return
    console.print(
        "Which commit it was cannot be told; it is one of these, and those that were skipped are "
        f"why: {' '.join(each[:10] for each in find.suspects)}",
        highlight=False,
        soft_wrap=True,
    )


def _table(find: Find, hunt: Hunt) -> Table:
    table = Table(
        title=f"{escape(hunt.workload.name)} against GOOD; bad is above {percent(find.line)}",
        box=box.SIMPLE_HEAD,
        title_justify="left",
    )
    for title in ("commit", "answer", "over GOOD", "interval", "pairs", "why"):
        table.add_column(title, justify="left" if title in ("commit", "why") else "right")
    whole = find.difference
    rows = [
        (hunt.good.origin, GOOD, None, 0, "given"),
        (hunt.bad.origin, BAD, whole.effect, 2 * whole.rounds, "given"),
        *((s.subject, s.answer, s.ratio, s.pairs, s.reason) for s in find.steps),
    ]
    for subject, answer, ratio, pairs, reason in rows:
        table.add_row(
            escape(subject),
            f"[{_COLOURS[answer]}]{answer}[/{_COLOURS[answer]}]",
            percent(ratio.value) if ratio else "–",
            interval(ratio) if ratio else "–",
            str(pairs or "–"),
            escape(reason),
        )
    return table


def document(find: Find, hunt: Hunt, typed: str) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "command": typed,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine.describe(),
        "benchmark": hunt.workload.name,
        "metric": hunt.workload.metric,
        "good": hunt.good.commit,
        "bad": hunt.bad.commit,
        "ratio": find.difference.effect.value,
        "interval": [find.difference.effect.low, find.difference.effect.high],
        "line": find.line,
        "culprit": find.culprit,
        "suspects": list(find.suspects),
        "steps": [_step(each) for each in find.steps],
        "log": find.log,
    }


def _step(step: Step) -> dict[str, Any]:
    content: dict[str, Any] = {
        "commit": step.commit,
        "subject": step.subject,
        "answer": step.answer,
        "reason": step.reason,
        "pairs": step.pairs,
    }
    if step.ratio is not None:
        content |= {"ratio": step.ratio.value, "interval": [step.ratio.low, step.ratio.high]}
    return content
