"""What `hakmem compare` compares: a program, or a server with a client. Run once under an allocator
for a sample, and run once more, slowly, for a count of its calls into the kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from rich.console import Console

from hakmem_lab import measure, serve
from hakmem_lab.counting import count_into
from hakmem_lab.errors import NotMappedError, RunError
from hakmem_lab.measure import Allocator, Command, words_of
from hakmem_lab.peers import registry
from hakmem_lab.report import Experiment
from hakmem_lab.schedule import Metrics, Samples, Task, interleave
from hakmem_lab.serve import Service

_LONGEST_NAME = 60

Measure = Callable[[Allocator], Metrics]


@dataclass(frozen=True)
class Job:
    name: str
    once: Measure
    count: Measure


def program(command: Command) -> Job:
    return Job(
        _name(words_of(command.words)),
        lambda allocator: measure.run(command, allocator).metrics,
        partial(measure.count, command),
    )


def server(service: Service) -> Job:
    name = _name(words_of(service.server.words))
    return Job(name, partial(serve.run, service), partial(serve.count, service))


def _name(words: str) -> str:
    return words if len(words) <= _LONGEST_NAME else f"{words[: _LONGEST_NAME - 3]}..."


class Trial:
    """The job under one allocator.

    A program may bring a malloc of its own, as Debian's redis-server brings jemalloc. A preloaded
    allocator takes its place; glibc, which is not preloaded, does not, and would not be what is
    measured. Then glibc's library is preloaded too, which puts its malloc first."""

    def __init__(self, job: Job, allocator: Allocator, notes: list[str]) -> None:
        self._job, self._allocator, self._notes = job, allocator, notes

    def once(self) -> Metrics:
        return self._run(self._job.once)

    def count(self) -> Metrics:
        """The allocator has been proved in the timed runs, which are not to be lost now."""
        try:
            return self._run(self._job.count)
        except NotMappedError as error:
            raise RunError(str(error)) from None

    def _run(self, measured: Measure) -> Metrics:
        try:
            return measured(self._allocator)
        except NotMappedError as error:
            if self._allocator.name == registry.HAKMEM:
                raise
            if self._allocator.library is not None:
                raise RunError(str(error)) from None
        self._allocator = registry.preloaded_system()
        metrics = self._run(measured)
        self._notes.append(
            f"the program brings a malloc of its own; {registry.SYSTEM} was preloaded to take its "
            "place, as the other allocators are"
        )
        return metrics


def compare(
    job: Job, experiment: Experiment, counted: int, console: Console
) -> tuple[Samples, list[str]]:
    """Timed runs, and then counting runs, both interleaved; and notes for people."""
    notes: list[str] = []
    trials = {each.name: Trial(job, each, notes) for each in experiment.allocators}
    timed = [Task(job.name, name, trial.once) for name, trial in trials.items()]
    samples = interleave(timed, experiment.runs, experiment.warmup, experiment.seed, console)
    if counted == 0 or samples.interrupted:
        return samples, notes
    # One that fails its timed runs has nothing to count.
    counting = [Task(job.name, name, trials[name].count) for _, name in samples.values]
    notes += count_into(samples, counting, counted, experiment.seed, console)
    return samples, notes
