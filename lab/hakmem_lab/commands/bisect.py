"""`hakmem bisect`: the commit that made a benchmark slower."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from hakmem_lab import report
from hakmem_lab.ab import bisect_view, bisecting, builds, workload
from hakmem_lab.ab.verdict import Plan
from hakmem_lab.commands.ab import (
    MARGIN,
    BuildOption,
    EnvOption,
    LibraryOption,
    MarginOption,
    MetricOption,
    RepositoryOption,
    nothing_told,
    recipe_of,
)
from hakmem_lab.commands.common import JsonOption, SeedOption, err, out, seed_of, typed
from hakmem_lab.errors import LabError
from hakmem_lab.measure import require_program
from hakmem_lab.options import fraction_of, variables_of


def bisect_command(
    good: Annotated[str, typer.Argument(help="A revision that is fast.")],
    bad: Annotated[str, typer.Argument(help="A later one that is slow.")],
    benchmark: Annotated[
        list[str],
        typer.Argument(metavar="-- BENCHMARK", help="A built-in benchmark, or a program."),
    ],
    runs: Annotated[int, typer.Option(min=5, metavar="N", help="At least so many rounds.")] = 10,
    budget: Annotated[
        float, typer.Option(min=1, metavar="S", help="Seconds of measuring a commit, at first.")
    ] = 120,
    repeats: Annotated[
        int, typer.Option(min=0, metavar="N", help="Trials more where noise wins, each doubled.")
    ] = 2,
    margin: MarginOption = None,
    metric: MetricOption = None,
    build: BuildOption = builds.Recipe.command,
    library: LibraryOption = builds.Recipe.library,
    repository: RepositoryOption = None,
    env: EnvOption = None,
    timeout: Annotated[float, typer.Option(min=0.1, metavar="S", help="Of one run.")] = 600.0,
    seed: SeedOption = None,
    json: JsonOption = None,
) -> None:
    """Find the commit that made a benchmark slower (exit 0; 2 when it cannot be told)."""
    with nothing_told():
        workloads = workload.choose(benchmark, metric, variables_of(env or []), timeout)
        if len(workloads) != 1:
            raise LabError("bisect follows one benchmark at a time")
        require_program(workloads[0].command.words[0])
        recipe = recipe_of(repository, build, library)
        first, last = (builds.commit_of(word, recipe.repository) for word in (good, bad))
        commits = int(builds.git(recipe.repository, "rev-list", "--count", f"{first}..{last}"))
        if commits == 0:
            raise LabError(f"there is no commit between {good} and {bad}")
        plan = Plan(
            margin=MARGIN if margin is None else fraction_of("--margin", margin),
            first_look=runs,
            benchmarks=math.ceil(math.log2(commits)) + 2,  # the trials share the error
        )
        with err.status("building GOOD and BAD"):
            fast = builds.of_commit(first, first, recipe)
            slow = builds.of_commit(last, last, recipe)
        hunt = bisecting.Hunt(
            fast, slow, recipe, workloads[0], plan, budget, repeats, seed_of(seed)
        )
        find = bisecting.run(
            hunt,
            err,
            lambda step: err.print(bisect_view.one_line(step), highlight=False, soft_wrap=True),
        )
        bisect_view.show(out, find, hunt)
        if json is not None:
            report.write(json, bisect_view.document(find, hunt, typed()))
            err.print(f"written: {json}", highlight=False)
    raise typer.Exit(0 if find.culprit is not None else 2)
