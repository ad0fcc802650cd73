"""The outcome of `hakmem ab` for people: what differs, what was measured, what it means."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hakmem_lab import metrics
from hakmem_lab.ab.judge import Answer
from hakmem_lab.ab.trial import Record
from hakmem_lab.ab.verdict import Verdict, interval, percent

_COLOURS = {
    Verdict.GO: "green",
    Verdict.NEUTRAL: "blue",
    Verdict.NO_GO: "red",
    Verdict.UNKNOWN: "yellow",
}
_MOST_FUNCTIONS = 12


def show(console: Console, answer: Answer) -> None:
    for letter, side in (("A", answer.question.a), ("B", answer.question.b)):
        told = f", {escape(side.options)}" if side.options else ""
        console.print(
            f"{letter}: {escape(side.word)} ({escape(side.origin)}){told}", highlight=False
        )
    _show_change(console, answer)
    if answer.records:
        console.print(_figures(answer))
    for sentence in _sentences(answer):
        console.print(sentence, highlight=False, soft_wrap=True)


def coloured(verdict: Verdict) -> str:
    return f"[{_COLOURS[verdict]}]{verdict}[/{_COLOURS[verdict]}]"


def _table(title: str) -> Table:
    return Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")


def _show_change(console: Console, answer: Answer) -> None:
    change = answer.change
    if change.identical:
        console.print("The two libraries are the same, byte for byte.")
    elif not change.differences:
        where = "" if change.complete else " of those that are exported; the others have no names"
        console.print(f"No function differs{where}; what was changed is data.")
    else:
        console.print(_changed_functions(answer))
        if not change.complete:
            console.print("One of them is stripped: functions without a name were not compared.")


def _changed_functions(answer: Answer) -> Table:
    """The functions that were executed most come first."""
    table = _table(f"What differs: {len(answer.change.differences)} functions")
    table.add_column("function", no_wrap=True)
    table.add_column("")
    table.add_column("instructions", justify="right")
    for benchmark in answer.reached:
        table.add_column(f"executed by {escape(benchmark)}", justify="right")
    executed = {
        each.function: [
            next(r.executed for r in found if r.function == each.function)
            for found in answer.reached.values()
        ]
        for each in answer.change.differences
    }
    ordered = sorted(answer.change.differences, key=lambda each: -sum(executed[each.function]))
    for each in ordered[:_MOST_FUNCTIONS]:
        counts = (str(number or "–") for number in executed[each.function])
        table.add_row(escape(each.function), each.kind, str(len(each.a) + len(each.b)), *counts)
    if (more := len(ordered) - _MOST_FUNCTIONS) > 0:
        table.add_row(f"and {more} more")
    return table


def _figures(answer: Answer) -> Table:
    titles = list(dict.fromkeys(metrics.title(each.workload.metric) for each in answer.records))
    table = _table(f"{', '.join(titles).capitalize()}, medians; intervals hold together in 95 %")
    for title in ("benchmark", "pairs", "A", "B", "B over A", "interval", "A over A", "verdict"):
        table.add_column(title, justify="left" if title == "benchmark" else "right", no_wrap=True)
    if answer.counts:
        table.add_column("instructions A", justify="right")
        table.add_column("B", justify="right")
        table.add_column("B over A", justify="right")
    if any(len(count.all_of_a) > 1 for count in answer.counts.values()):
        table.add_column("interval", justify="right")
    for record in answer.records:
        table.add_row(*_row(record), *_counted(answer, record))
    return table


def _row(record: Record) -> Iterator[str]:
    yield escape(record.workload.name)
    yield str(2 * len(record.rounds))
    for letter in "AB":
        times = record.times(letter) + record.times(f"{letter}'")
        yield _figure(statistics.median(times), record.workload.metric) if times else "–"
    if record.look is None:
        yield from ("–", "–", "–")
    else:
        yield percent(record.look.effect.value)
        yield interval(record.look.effect)
        yield interval(record.look.control)
    yield coloured(record.verdict)


def _figure(value: float, metric: str) -> str:
    return f"{value:.3f} ns" if metrics.of(metric).unit == "ns" else metrics.figure(value, metric)


def _counted(answer: Answer, record: Record) -> Iterator[str]:
    if record.workload.name in answer.counts:
        count = answer.counts[record.workload.name]
        digits = 2 if count.unit == "operation" else 0
        yield f"{count.a:,.{digits}f}"
        yield f"{count.b:,.{digits}f}"
        yield percent(count.ratio.value)
        if len(count.all_of_a) > 1:
            yield "–" if math.isnan(count.ratio.low) else interval(count.ratio)


def _sentences(answer: Answer) -> Iterator[str]:
    yield from _not_executed(answer)
    for name, why in answer.uncounted.items():
        yield f"[yellow]not counted:[/yellow] {escape(name)}: {escape(why)}"
    for record in answer.records:
        if record.failure is not None:
            yield f"[red]failed:[/red] {escape(record.workload.name)}: {escape(record.failure)}"
    if answer.records:
        yield f"{coloured(answer.verdict)}: {_meaning(answer)}"


def _not_executed(answer: Answer) -> Iterator[str]:
    names = [
        each.name for each in answer.question.workloads if answer.executes_the_change(each) is False
    ]
    if not names:
        return
    functions = [each.function for each in answer.change.differences]
    listed = ", ".join(functions[:5]) + (", …" if len(functions) > 5 else "")
    yield (
        f"{coloured(Verdict.UNKNOWN)}: the change was not executed by "
        f"{escape(', '.join(names))}: none of the {answer.change.instructions} instructions in "
        f"which A and B differ ({escape(listed)}). Timing it would measure something else; choose "
        "a benchmark that runs it."
    )


def _meaning(answer: Answer) -> str:
    margin = f"±{answer.question.limits.plan.margin * 100:g} %"
    if answer.verdict is Verdict.NEUTRAL:
        return f"B is as fast as A, within {margin}."
    if answer.verdict is Verdict.UNKNOWN:
        return _advice(answer, margin)
    parts = [
        f"{percent(each.look.effect.value)} ({interval(each.look.effect)}) in "
        f"{escape(each.workload.name)}"
        for each in answer.records
        if each.look is not None and each.verdict is answer.verdict
    ]
    word = "faster" if answer.verdict is Verdict.GO else "slower"
    return f"B is {word} than A by more than {margin}: {'; '.join(parts)}."


def _advice(answer: Answer, margin: str) -> str:
    unknown = [each for each in answer.records if each.verdict is Verdict.UNKNOWN]
    names = escape(", ".join(each.workload.name for each in unknown))
    noisy = [
        each
        for each in unknown
        if each.look is not None and each.look.control_verdict is not Verdict.NEUTRAL
    ]
    why = f"noise wins in {names}: the interval is neither within {margin} nor beyond"
    if noisy:
        why = (
            f"noise wins in {escape(', '.join(each.workload.name for each in noisy))}: even A "
            f"against A is not within {margin}"
        )
    return (
        f"{why}. Ask again on a quieter machine, with more time (--budget), a wider margin "
        "(--margin), or count instructions (--instructions)."
    )
