"""The outcome of `hakmem ab` as JSON: the schema of the other results, and beside it

verdict    of all benchmarks together; margin, confidence
a, b       what was compared
change     in which functions they differ, and how many of the changed instructions each
           benchmark executed
trials     for each benchmark: verdict, executed, pairs, ratio and interval of B over A,
           the same of the control (A over A and B over B), instructions
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hakmem_lab import machine, metrics, stats
from hakmem_lab.ab.builds import Side
from hakmem_lab.ab.judge import Answer
from hakmem_lab.ab.trial import Record
from hakmem_lab.ab.verdict import PROGRAMS
from hakmem_lab.ab.workload import Workload
from hakmem_lab.report import SCHEMA
from hakmem_lab.stats import Estimate

Document = dict[str, Any]


def document(answer: Answer, typed: str) -> Document:
    question = answer.question
    plan = question.limits.plan
    return {
        "schema": SCHEMA,
        "command": typed,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine.describe(),
        "seed": question.seed,
        "verdict": answer.verdict,
        "executed": answer.was_executed,
        "margin": plan.margin,
        "confidence": 1 - plan.error,
        "layout": question.with_layout,
        "a": _side(question.a),
        "b": _side(question.b),
        "change": _change(answer),
        "trials": [_trial(answer, each) for each in question.workloads],
        "results": [row for record in answer.records for row in _results(record)],
    }


def _side(side: Side) -> Document:
    return {
        "name": side.word,
        "origin": side.origin,
        "commit": side.commit,
        "sha256": side.sha256,
        "options": side.options,
    }


def _change(answer: Answer) -> Document:
    return {
        "identical": answer.change.identical,
        "all_functions_known": answer.change.complete,
        "functions": [
            {
                "function": each.function,
                "kind": each.kind,
                "instructions": len(each.a) + len(each.b),
                "executed": {
                    benchmark: next(r.executed for r in found if r.function == each.function)
                    for benchmark, found in answer.reached.items()
                },
            }
            for each in answer.change.differences
        ],
    }


def _trial(answer: Answer, workload: Workload) -> Document:
    record = next((each for each in answer.records if each.workload is workload), None)
    content: Document = {
        "benchmark": workload.name,
        "metric": workload.metric,
        "executed": answer.executes_the_change(workload),
        "verdict": record.verdict if record else None,
        "pairs": 2 * len(record.rounds) if record else 0,
        "failure": record.failure if record else None,
    }
    if record and record.look:
        content |= {
            **_ratio(record.look.effect),
            "control": {
                **_ratio(record.look.control),
                "verdict": record.look.control_verdict,
            },
        }
    if workload.name in answer.uncounted:
        content["instructions"] = {"failure": answer.uncounted[workload.name]}
    if workload.name in answer.counts:
        count = answer.counts[workload.name]
        content["instructions"] = {
            "a": count.a,
            "b": count.b,
            "per": count.unit,
            "samples": [list(count.all_of_a), list(count.all_of_b)],
        }
    return content


def _ratio(estimate: Estimate) -> Document:
    return {"ratio": estimate.value, "interval": [estimate.low, estimate.high]}


def _results(record: Record) -> list[Document]:
    rows = []
    for program in PROGRAMS:
        samples = record.times(program)
        if samples:
            estimate = stats.median(samples)
            rows.append(
                {
                    "benchmark": record.workload.name,
                    "allocator": program,
                    "metric": record.workload.metric,
                    "unit": metrics.of(record.workload.metric).unit,
                    "better": "lower",
                    "samples": samples,
                    "median": estimate.value,
                    "ci95": [estimate.low, estimate.high],
                }
            )
    return rows
