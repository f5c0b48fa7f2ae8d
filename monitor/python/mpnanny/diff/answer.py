"""Turns what two runs have measured into the answer, whose fields docs/auto_diff.md explains."""

from __future__ import annotations

import math
import os
from typing import Any

import torch

from ..fp64.findings import INTEGERS, RANGE, UNDEFINED, Finding
from ..fp64.thresholds import AMPLIFICATION
from ..operators.places import is_users
from ..programs.policy import Policy
from ..programs.program import Program
from .compared import Compared
from .decisions import Differing
from .dimensions import Dimension
from .operator_errors import Row
from .verdict import Verdict, is_bad

NOTHING_LOW = "nothing_in_low_precision"  # among the limits
MOST_FINDINGS = 10
MOST_CONTRIBUTORS = 12
MOST_GRADIENTS = 8


class Answer:
    """Of one pair of runs."""

    def __init__(self, program: Program, policy: Policy, verdict: Verdict) -> None:
        self._program = program
        self._policy = policy
        self._verdict = verdict
        self._full = verdict.full
        self._low = verdict.low

    def json(self) -> dict[str, Any]:
        bad = self._verdict.bad()
        verdict = self._verdict.word()
        first = self._first(bad)
        answer: dict[str, Any] = {
            "verdict": verdict,
            "target": self._program.target.name,
            "dtype": self._policy.precision,
            "policy": self._policy.name,
            "mode": "emulated" if self._emulated() else "native",
            "emulated": self._emulated(),
        }
        if first is not None:
            answer["first_bad"] = first
        answer["findings"] = [self._finding(each) for each in bad[1:MOST_FINDINGS]]
        answer["contributors"] = self._contributors()
        cure = next((each.cure for each in bad if each.cure is not None), None)
        answer["keep_fp32"] = self._keep(bad)
        if cure is not None:
            answer["cure"] = {
                "lines": [self._shown(each) for each in cure.lines],
                "operators": cure.operators,
                "what": cure.what,
                "error_before": number(cure.error_before),
                "error_after": number(cure.error_after),
            }
        answer |= self._ends()
        answer["layers"] = self._layers()
        answer["dims"] = self._dims(bad)
        answer["ill_conditioned"] = [
            {
                "op": each.site.operator,
                "source": self._shown(each.site.source),
                "error": number(each.error_out),
                "kind": each.kind,
            }
            for each in self._verdict.ill_conditioned
        ]
        answer["inputs"] = [
            {"name": each.name, "words": each.words, **_form(each.value)}
            for each in self._program.inputs
        ]
        answer["operators"] = self._low.operators
        answer["operators_in_low"] = self._low.in_low
        answer["seconds"] = {
            "fp32": round(self._full.seconds, 3),
            "low": round(self._low.seconds, 3),
        }
        answer["limits"] = self._not_tested()
        return answer

    def _emulated(self) -> list[str]:
        codes = self._policy.emulated
        if self._low.missing_kernels:
            codes = [*codes, *(f"kernel:{each}" for each in sorted(self._low.missing_kernels))]
        return codes

    def _shown(self, source: str) -> str:
        return shown_source(source, self._program.target.root)

    def _first(self, bad: list[Finding]) -> dict[str, Any] | None:
        if self._low.raised is not None:
            return self._raised(self._low.raised)
        if bad:
            return self._at_its_root(bad[0])
        undefined = [e for e in self._low.findings if is_bad(e) and e.kind == UNDEFINED]
        if undefined:
            return self._finding(undefined[0])
        decided = self._verdict.decided()
        if decided is not None:
            return self._decision(decided)
        if self._verdict.is_spread():
            row = self._where_it_has_grown()
            return None if row is None else {**self._row(row), "kind": "rounding", "what": "spread"}
        whole = self._verdict.wrong_whole()
        if whole is not None:
            return {
                **self._row(whole),
                "kind": "rounding",
                "what": "whole_numbers",
                "share": number(whole.wrong_whole),
            }
        return self._input() if self._verdict.word() == "broken" else None

    def _input(self) -> dict[str, Any] | None:
        """An input or a weight that the dtype cannot hold."""
        attempt = self._low.attempt
        if attempt is None:
            return None
        for held, exact in attempt.exact:
            bad = int((~held.isfinite() & exact.isfinite()).sum())
            if bad:
                names = [
                    name for name, leaf in attempt.leaves if leaf.data_ptr() == held.data_ptr()
                ]
                return {
                    "op": "",
                    "module": names[0] if names else "an input",
                    "source": "",
                    "kind": "range",
                    "what": "input",
                    "share": number(bad / held.numel()),
                    "magnitude": number(exact[exact.isfinite()].abs().max().item()),
                }
        return None

    def _where_it_has_grown(self) -> Row | None:
        """The first operator whose error is that of the worst one but for what lies below the
        amplification of an operator that is named by itself.
        """
        rows = [each for each in self._low.rows if each.site.phase != "backward"]
        worst = max((each.accumulated for each in rows), default=0.0)
        grown = [each for each in rows if each.accumulated * AMPLIFICATION >= worst]
        return min(grown, key=lambda each: each.number, default=None)

    def _at_its_root(self, found: Finding) -> dict[str, Any]:
        """A finding shows at the operator that makes a large error of a small one, or a value that
        is not finite. Where only lines before it cure it, the first of these is where precision is
        lost, and `shows_at` is where it is seen.
        """
        shown = self._finding(found)
        if found.cure is None or not found.cure.lines:
            return shown
        root = found.cure.lines[0]
        row = self._row_at(root, found.cure.operators)
        if root == found.site.source or row is None:
            return shown
        shown["shows_at"] = {key: shown[key] for key in ("op", "module", "source")}
        return {**shown, **{key: self._row(row)[key] for key in ("op", "module", "source")}}

    def _row_at(self, source: str, operators: list[str]) -> Row | None:
        """The operator of a cure at this line."""
        rows = [
            each
            for each in self._low.rows
            if each.site.source == source and each.site.operator in operators
        ]
        return max(rows, key=lambda each: each.local, default=None)

    def _decision(self, found: Differing) -> dict[str, Any]:
        return {
            "op": found.site.operator,
            "module": found.site.module or "",
            "source": self._shown(found.site.source),
            "phase": "backward" if found.site.phase == "backward" else "forward",
            "kind": "rounding",
            "what": "decision",
            "dtype": found.dtype,
            "shape": found.shape,
            "share": number(found.share),
        }

    def _raised(self, error: Exception) -> dict[str, Any]:
        """The target ran in FP32 and stops in the low precision."""
        source = ""
        trace = error.__traceback__
        while trace is not None:
            file = trace.tb_frame.f_code.co_filename
            if is_users(file):
                source = f"{os.path.abspath(file)}:{trace.tb_lineno}"
            trace = trace.tb_next
        return {
            "op": "",
            "module": "",
            "source": self._shown(source),
            "kind": "range",
            "what": "raised",
            "error": f"{type(error).__name__}: {error}"[:1000],
        }

    def _finding(self, found: Finding) -> dict[str, Any]:
        row = next((each for each in self._low.rows if each.site.key == found.site.key), None)
        shown: dict[str, Any] = {
            "op": found.site.operator,
            "module": found.site.module or "",
            "source": self._shown(found.site.source),
            "phase": "backward" if found.site.phase == "backward" else "forward",
            "kind": "range" if found.kind in (RANGE, UNDEFINED) else "rounding",
            "what": found.kind,
            "dtype": found.dtype,
            "shape": found.shape,
            "local": None if row is None else number(row.local),
            "accumulated": number(found.error_out),
            "error_in": number(found.error_in),
            "share": number(found.share),
            "magnitude": number(found.magnitude),
            "precision": found.precision,
            "reaches": [
                {"what": what, "name": self._shown(name), "error": number(error)}
                for (what, name), error in list(found.reach.items())[:6]
            ],
            "count": found.count,
        }
        grown = self._verdict.grown(found) if found.kind == INTEGERS else None
        if grown is not None:
            shown["grows"] = grown_json(grown, self._program.target.root)
        if "operands" in found.detail:
            shown["operands"] = found.detail["operands"]
        if "inputs_from" in found.detail:
            before = found.detail["inputs_from"]
            shown["inputs_from"] = [[operator, self._shown(line)] for operator, line in before]
        return shown

    def _row(self, row: Row) -> dict[str, Any]:
        return {
            "module": row.site.module or "",
            "op": row.site.operator,
            "source": self._shown(row.site.source),
            "phase": "backward" if row.site.phase == "backward" else "forward",
            "local": number(row.local),
            "accumulated": number(row.accumulated),
        }

    def _contributors(self) -> list[dict[str, Any]]:
        """The operators of the forward pass whose own rounding is largest. `share`: of the sum of
        the squares of all.
        """
        rows = [each for each in self._low.rows if each.site.phase != "backward"]
        total = sum(each.squared_local for each in rows)
        worst = sorted(rows, key=lambda each: -each.squared_local)[:MOST_CONTRIBUTORS]
        return [
            {**self._row(each), "share": number(each.squared_local / total)}
            for each in worst
            if total > 0 and each.squared_local > 0
        ]

    def _keep(self, bad: list[Finding]) -> list[str]:
        """Modules whose lines cure what was found."""
        lines = {line for each in bad if each.cure is not None for line in each.cure.lines}
        found = [
            each.site.module
            for each in self._low.rows
            if each.site.module and each.site.source in lines
        ]
        found += [each.site.module for each in bad if each.cure is not None and each.site.module]
        return list(dict.fromkeys(found))

    def _ends(self) -> dict[str, Any]:
        low, full = self._low, self._full
        ends: dict[str, Any] = {
            "output": [
                {**_compared(each), "expected": number(self._verdict.expected())}
                for each in low.outputs
            ]
        }
        if low.loss is not None:
            reference = low.loss_reference
            difference = math.nan if reference is None else abs(low.loss - reference)
            size = abs(reference) if reference else math.nan
            ends["loss"] = {
                "fp32": number(full.loss),
                "low": number(low.loss),
                "reference": number(reference),
                "error": number(difference / size if size else difference),
            }
        if low.gradients:
            squares = sum(each.found.squared_error for each in low.gradients)
            sizes = sum(each.found.squared_reference for each in low.gradients)
            worst = sorted(low.gradients, key=lambda each: -each.error)[:MOST_GRADIENTS]
            error = math.sqrt(squares / sizes) if sizes > 0 else 0.0
            if any(each.found.bad for each in low.gradients):
                error = math.inf
            ends["gradients"] = {
                "error": number(error),
                "worst": [_compared(each) for each in worst],
            }
        return ends

    def _layers(self) -> list[dict[str, Any]]:
        layers: dict[str, dict[str, Any]] = {}
        for row in self._low.rows:
            if row.site.phase == "backward":
                continue
            name = row.site.module or self._shown(row.site.source)
            layer = layers.setdefault(
                name,
                {
                    "module": name,
                    "operators": 0,
                    "local": 0.0,
                    "accumulated": 0.0,
                    "absmax": 0.0,
                    "nonfinite": 0,
                },
            )
            layer["operators"] += row.count
            layer["nonfinite"] += row.nonfinite
            layer["local"] = max(layer["local"], row.local)
            layer["accumulated"] = row.accumulated  # of the last operator
            layer["absmax"] = max(layer["absmax"], row.absmax)
        return [
            {key: number(each) if isinstance(each, float) else each for key, each in layer.items()}
            for layer in layers.values()
        ]

    def _dims(self, bad: list[Finding]) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        for found in bad[:3]:
            dimensions: list[Dimension] = self._low.dimensions.get(found.number, [])
            made += [
                {
                    "what": self._shown(found.site.source),
                    "dim": each.dim,
                    "size": each.size,
                    "imbalance": number(each.imbalance),
                    "absorbed": number(each.absorbed),
                }
                for each in dimensions
            ]
        return made

    def _not_tested(self) -> list[str]:
        limits = [f"not_followed:{each}" for each in self._low.not_followed]
        if self._program.options.backward and not self._low.gradients and not self._low.raised:
            limits.append("no_gradients")
        if self._low.operators and not self._low.in_low and self._low.raised is None:
            limits.append(NOTHING_LOW)
        return limits


def shown_source(source: str, root: str) -> str:
    """A line of a file below `root` relative to it."""
    return source.removeprefix(os.path.realpath(root) + os.sep) if root else source


def grown_json(grown: Finding, root: str) -> dict[str, Any]:
    """What an operator makes of whole numbers that are others."""
    return {
        "op": grown.site.operator,
        "module": grown.site.module or "",
        "source": shown_source(grown.site.source, root),
        "error": number(grown.error_out),
    }


def _compared(each: Compared) -> dict[str, Any]:
    found = each.found
    return {
        "name": each.name,
        "dtype": str(each.dtype).removeprefix("torch."),
        "shape": list(each.shape),
        "error": number(math.inf if found.bad else each.error),
        "max_error": number(found.max_error),
        "nonfinite": found.bad,
        "flushed": found.flushed,
    }


def _form(value: Any) -> dict[str, Any]:
    if isinstance(value, torch.Tensor):
        return {"dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape)}
    return {
        "value": value
        if isinstance(value, (int, str, bool))
        else number(value)
        if isinstance(value, float)
        else type(value).__name__
    }


def number(value: float | None) -> Any:
    """As JSON has it: what is not finite is a word."""
    if value is None:
        return None
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value
