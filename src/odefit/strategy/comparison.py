"""Which of several models describes the same data best.

A fit is nested in another one if its free parameters are some of the other's: names are taken at their word.  Then
twice the difference of the log likelihoods is distributed as chi2 with as many degrees of freedom as there are further
parameters (Wilks), if the smaller model is true.  Where it fixes a single further parameter at a bound of the larger
model, the estimate can only go to one side, and the distribution is half chi2 with one degree of freedom and half zero
(Self and Liang 1987): p is halved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from odefit.errors import ProblemError
from odefit.statistics.covariance import AT_BOUND
from odefit.strategy.result import FitResult
from odefit.strategy.result_content import with_none_for_missing


class ModelRow(NamedTuple):
    """One fit; `delta` is its AICc (AIC if that does not exist everywhere) less that of the best."""

    name: str
    n_estimated: int
    loglik: float
    aic: float
    aicc: float | None
    bic: float
    delta: float


class LikelihoodRatio(NamedTuple):
    """Test of a smaller model against a larger one.

    Attributes
    ----------
    statistic, dof, p
        Twice the difference of the log likelihoods, the number of further parameters, the p-value.
    note
        What to know about the p-value; empty if there is nothing.
    """

    smaller: str
    larger: str
    statistic: float
    dof: int
    p: float
    note: str


@dataclass(frozen=True)
class Comparison:
    """Fits of the same data, best first, and the likelihood ratio tests of those that are nested."""

    rows: tuple[ModelRow, ...]
    tests: tuple[LikelihoodRatio, ...]
    notes: tuple[str, ...]

    @property
    def best(self) -> str:
        """Name of the fit with the smallest AICc."""
        return self.rows[0].name

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, None where a number does not exist."""
        content = {
            "rows": [row._asdict() for row in self.rows],
            "tests": [test._asdict() for test in self.tests],
            "notes": self.notes,
        }
        return with_none_for_missing(content)

    def __str__(self) -> str:
        width = max(len("model"), *(len(row.name) for row in self.rows))
        lines = [f"{'model':{width}}   k     loglik        AIC       AICc        BIC      delta"]
        lines.append("-" * len(lines[0]))
        for row in self.rows:
            aicc = "-" if row.aicc is None else f"{row.aicc:.5g}"
            lines.append(
                f"{row.name:{width}} {row.n_estimated:3d} {row.loglik:10.5g} {row.aic:10.5g} {aicc:>10} {row.bic:10.5g}"
                f" {row.delta:10.4g}"
            )
        for test in self.tests:
            p = f"p {test.p:.3g}" + (f" ({test.note})" if test.note else "")
            lines.append(f"{test.smaller} against {test.larger}: 2 dloglik = {test.statistic:.4g}, dof {test.dof}, {p}")
        return "\n".join([*lines, *self.notes])


def compare(*results: FitResult, names: list[str] | None = None) -> Comparison:
    """Compare fits of the same data by AIC, AICc, BIC and, where nested, by likelihood ratio.

    Parameters
    ----------
    results
        Two or more; refused if they were fitted to different data.
    names
        What to call them; their titles by default, numbered where these are not different.
    """
    if len(results) < 2:
        raise ProblemError(f"compare needs two results or more; it was given {len(results)}.")
    labels = _labels(results) if names is None else list(names)
    if len(labels) != len(results):
        raise ProblemError(f"compare was given {len(results)} results and {len(labels)} names.")
    for label, result in zip(labels, results, strict=True):
        _check(results[0], labels[0], result, label)
    return Comparison(_rows(results, labels), _tests(results, labels), tuple(_notes(results, labels)))


def _labels(results: tuple[FitResult, ...]) -> list[str]:
    titles = [result.problem.title for result in results]
    if all(titles) and len(set(titles)) == len(titles):
        return titles
    return [f"model {i + 1}" for i in range(len(results))]


def _check(first: FitResult, first_label: str, result: FitResult, label: str) -> None:
    if result.loglik is None:
        raise ProblemError(f"'{label}' has no likelihood ({result.status}: {result.message}); compare needs one.")
    mine, other = _data_of(first), _data_of(result)
    if len(mine) != len(other):
        raise ProblemError(
            f"'{first_label}' and '{label}' were fitted to different data ({len(mine)} and {len(other)} values); "
            "likelihoods can be compared for the same data only."
        )
    if mine != other:
        raise ProblemError(
            f"'{first_label}' and '{label}' were fitted to different data (times, values or weights); "
            "likelihoods can be compared for the same data only."
        )


def _data_of(result: FitResult) -> list[tuple[Any, ...]]:
    """Return what was fitted, in an order of its own."""
    data, sigma, rows = result.problem.measurements, result.problem.sigma, []
    for observation in result.plan.data.of_experiment:
        for k in observation.source.tolist():
            weights = tuple(None if np.isnan(x) else float(x) for x in (sigma[k], data.weight[k]))
            place = (str(data.experiment[k]), str(data.observable[k]), float(data.time[k]), float(data.value[k]))
            rows.append((*place, str(weights)))
    return sorted(rows)


def _rows(results: tuple[FitResult, ...], labels: list[str]) -> tuple[ModelRow, ...]:
    rows = []
    for label, result in zip(labels, results, strict=True):
        criteria = result.criteria
        if result.loglik is None or criteria.aic is None or criteria.bic is None:
            continue
        rows.append(ModelRow(label, result.n_estimated, result.loglik, criteria.aic, criteria.aicc, criteria.bic, 0.0))
    corrected = all(row.aicc is not None for row in rows)
    values = [row.aicc if corrected and row.aicc is not None else row.aic for row in rows]
    with_delta = [row._replace(delta=value - min(values)) for row, value in zip(rows, values, strict=True)]
    return tuple(sorted(with_delta, key=lambda row: row.delta))


def _tests(results: tuple[FitResult, ...], labels: list[str]) -> tuple[LikelihoodRatio, ...]:
    tests = []
    for smaller, name in zip(results, labels, strict=True):
        for larger, other in zip(results, labels, strict=True):
            if set(smaller.plan.names) < set(larger.plan.names):
                tests.append(_ratio_test(smaller, name, larger, other))
    return tuple(tests)


def _ratio_test(smaller: FitResult, name: str, larger: FitResult, other: str) -> LikelihoodRatio:
    from scipy.special import chdtrc  # slow to import, and needed only here

    further = [p for p in larger.plan.names if p not in smaller.plan.names]
    statistic = 2.0 * ((larger.loglik or 0.0) - (smaller.loglik or 0.0))
    p = float(chdtrc(len(further), max(statistic, 0.0)))
    on_bound = [parameter for parameter in further if _on_bound(smaller, larger, parameter)]
    note = ""
    if statistic < 0.0 and not np.isclose(statistic, 0.0, atol=1e-3):
        note = "the larger model fits worse: it is not nested, or its fit has not found the minimum"
    elif on_bound and len(further) == 1:
        p = 0.5 * p if statistic > 0.0 else 1.0
        note = f"halved: the smaller model has '{on_bound[0]}' at its bound"
    elif on_bound:
        note = f"an upper limit: the smaller model has {', '.join(on_bound)} at a bound"
    return LikelihoodRatio(name, other, statistic, len(further), p, note)


def _on_bound(smaller: FitResult, larger: FitResult, parameter: str) -> bool:
    """Tell whether the smaller model's value of a parameter is a bound of the larger one's."""
    compiled = larger.plan.compiled
    i = larger.plan.names.index(parameter)
    bounds = (float(compiled.lower[i]), float(compiled.upper[i]))
    if parameter in smaller.estimates:
        return smaller.estimates[parameter] in bounds
    # the smaller model does not know it: most often it is zero there
    return larger.parameters[parameter].verdict == AT_BOUND or 0.0 in bounds


def _notes(results: tuple[FitResult, ...], labels: list[str]) -> list[str]:
    notes = []
    for label, result in zip(labels, results, strict=True):
        if not result.converged:
            notes.append(f"{label} did not converge ({result.status}): its numbers are those of the best point found.")
        if result.uncertainty is not None and not result.uncertainty.independent.resolved:
            limit = result.uncertainty.limit
            notes.append(f"{label} leaves residuals no larger than {limit}: do not compare by likelihood.")
        if result.uncertainty is not None and result.uncertainty.kind == "autocorrelated":
            notes.append(f"{label} leaves autocorrelated residuals: differences of the criteria look too large.")
        if result.plan.n_residuals > result.plan.n_data:
            notes.append(f"{label} has priors, which the likelihood does not contain.")
    return notes
