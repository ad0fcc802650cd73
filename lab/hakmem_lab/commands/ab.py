"""`hakmem ab`: is B faster or slower than A?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab import paths, report
from hakmem_lab.ab import builds, chart, judge, trial, view, workload
from hakmem_lab.ab.document import document
from hakmem_lab.ab.verdict import Plan, Verdict
from hakmem_lab.commands.common import JsonOption, SeedOption, err, out, seed_of, typed
from hakmem_lab.errors import LabError, MissingError
from hakmem_lab.measure import require_program
from hakmem_lab.options import allocator_options, fraction_of, variables_of

EXIT_STATUS = {Verdict.GO: 0, Verdict.NEUTRAL: 0, Verdict.NO_GO: 1, Verdict.UNKNOWN: 2}
MARGIN, MARGIN_WITH_LAYOUT = 0.005, 0.01

BuildOption = Annotated[
    str, typer.Option("--build", metavar="CMD", help="How a revision is built, in its root.")
]
LibraryOption = Annotated[
    str, typer.Option("--library", metavar="PATH", help="Where the library is then, in its root.")
]
RepositoryOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Of the revisions; default: this checkout.")
]
BudgetOption = Annotated[float, typer.Option(min=1, metavar="S", help="Seconds of measuring.")]
MarginOption = Annotated[
    str | None, typer.Option(metavar="P%", help="What counts as equal; default 0.5%, or 1%.")
]
MetricOption = Annotated[
    str | None, typer.Option(help=f"One of: {', '.join(workload.DRIVER_METRICS)}.")
]
EnvOption = Annotated[
    list[str] | None, typer.Option(metavar="NAME[=VALUE]", help="A variable for the program.")
]


def ab_command(
    a: Annotated[str, typer.Argument(help="A library, a build folder, a tree or a revision.")],
    b: Annotated[str, typer.Argument(help="Another, or the same.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- CMD...]", help="A program, or built-in benchmarks by name."),
    ] = None,
    runs: Annotated[int, typer.Option(min=10, metavar="N", help="At least so many rounds.")] = 10,
    budget: BudgetOption = 600,
    margin: MarginOption = None,
    metric: MetricOption = None,
    layout: Annotated[
        bool, typer.Option("--layout", help="Random order of functions, size of environment.")
    ] = False,
    instructions: Annotated[
        bool, typer.Option("--instructions", help="Count instructions too, by callgrind.")
    ] = False,
    counts: Annotated[
        int, typer.Option(min=1, metavar="N", help="How often those; an interval from 6 on.")
    ] = 1,
    set_a: Annotated[
        list[str] | None,
        typer.Option("--set-a", metavar="NAME=VALUE", help="An option of A; may be repeated."),
    ] = None,
    set_b: Annotated[
        list[str] | None, typer.Option("--set-b", metavar="NAME=VALUE", help="The same of B.")
    ] = None,
    build: BuildOption = builds.Recipe.command,
    library: LibraryOption = builds.Recipe.library,
    repository: RepositoryOption = None,
    env: EnvOption = None,
    timeout: Annotated[float, typer.Option(min=0.1, metavar="S", help="Of one run.")] = 600.0,
    seed: SeedOption = None,
    json: JsonOption = None,
    picture: Annotated[
        Path | None, typer.Option("--chart", metavar="F", help="Draw the intervals (png, svg).")
    ] = None,
) -> None:
    """Compare two builds, or one in two ways: GO, NEUTRAL (exit 0), NO-GO (1) or UNKNOWN (2)."""
    with nothing_told():
        workloads = workload.choose(command or [], metric, variables_of(env or []), timeout)
        for each in workloads:
            require_program(each.command.words[0])
        recipe = recipe_of(repository, build, library)
        usual = MARGIN_WITH_LAYOUT if layout else MARGIN
        plan = Plan(
            margin=usual if margin is None else fraction_of("--margin", margin),
            first_look=runs,
            benchmarks=len(workloads),
        )
        question = judge.Question(
            replace(side_of(a, recipe), options=allocator_options(None, set_a or [])),
            replace(side_of(b, recipe), options=allocator_options(None, set_b or [])),
            workloads,
            trial.Limits(plan, budget),
            recipe,
            seed_of(seed),
            layout,
            counts if instructions else 0,
        )
        answer = judge.answer(question, err)
        view.show(out, answer)
        if json is not None:
            report.write(json, document(answer, typed()))
            err.print(f"written: {json}", highlight=False)
        if picture is not None and answer.records:
            chart.write(answer, picture)
            err.print(f"written: {picture}", highlight=False)
    raise typer.Exit(EXIT_STATUS[answer.verdict])


class nothing_told:
    """Errors end in 2: 1 says that B is slower."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, LabError):
            raise MissingError(str(error)) from error


def recipe_of(repository: Path | None, build: str, library: str) -> builds.Recipe:
    where = repository or (paths.checkout() if paths.is_checkout() else Path.cwd())
    return builds.Recipe(where.resolve(), build, library)


def side_of(word: str, recipe: builds.Recipe) -> builds.Side:
    with err.status(f"building {word}"):
        return builds.find(word, recipe)
