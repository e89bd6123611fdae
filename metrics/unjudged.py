"""How much a comparison could owe to documents that nobody judged."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from metrics.arrays import Booleans, Floats, Objects
from metrics.errors import MetricError
from metrics.evaluation import evaluate
from metrics.ids import coded, objects
from metrics.joining import join
from metrics.measures import parse_measure
from metrics.ordering import ranks_of_pairs
from metrics.records import Conventions, Evaluation, Judgments, Run, mean_of_defined

_DEFAULTS = Conventions()


@dataclass(frozen=True)
class _Documents:
    """Unjudged documents of two lists, each once: ids (n,) object, ranks (n,) float64.

    before, after: (mean) rank in the baseline and in the challenger, inf where it is not listed.
    earliest: the best rank that it can take in either.
    """

    query_ids: Objects
    doc_ids: Objects
    before: Floats
    after: Floats
    earliest: Floats


def unjudged_bounds(
    baseline: Run,
    challenger: Run,
    judgments: Judgments,
    measure: str,
    conventions: Conventions = _DEFAULTS,
) -> tuple[float, float]:
    """Mean paired delta challenger - baseline, unjudged documents at their worst and best for it.

    Every unjudged document (no judgment, or a negative grade) that one of the lists holds gets a
    grade, the same for both systems and in the ideal order: the highest of the judgments (at least
    `conventions.rel`) where that favours one side, else 0. `high`: the highest for documents that
    the challenger ranks before the baseline does. `low`: for those that the baseline ranks first.
    A list that lacks a document, or cuts it by `conventions.depth`, has it behind all others. At
    equal ranks, or beyond the measure's cutoff in both lists, the grade is 0 in both.

    In a definite order these are the true extremes over all ways to judge for measures that only
    add up falling weights of ranks: P, RBP, and DCG with gains that rise. Where the ideal order,
    the number of relevant documents or the documents above count (nDCG, R, AP, RR, bpref), they
    are two scenarios and not a proof: another way to judge may move the delta further.

    Ranks are those of the tie rule under the judgments as they are, under tie="expected" their
    means; judged_only leaves nothing out, as all has a grade. The two numbers are in order, and NaN
    where no query has a value in both systems. MetricError for measures of subtopics.
    """
    asked = parse_measure(measure).innermost
    if asked.metric.needs_subtopics:
        raise MetricError(
            f"an unjudged document has no subtopic, so {measure} has no bounds; ask for a measure "
            "that knows none"
        )
    found = _unjudged(baseline, challenger, judgments, conventions)
    counts = found.earliest <= (asked.cutoff or np.inf)
    how = replace(conventions, on_conflict="max")  # a negative grade gives way; others are checked
    deltas = []
    for favoured in (found.before < found.after, found.after < found.before):
        graded = _with_grades(judgments, found, favoured & counts, conventions.rel)
        before, after = (evaluate(run, graded, [measure], how) for run in (baseline, challenger))
        deltas.append(_mean_delta(before, after, measure))
    return min(deltas), max(deltas)


def _unjudged(baseline: Run, challenger: Run, judgments: Judgments, how: Conventions) -> _Documents:
    (queries, documents, *ranks), theirs = (
        _listed(run, judgments, how) for run in (baseline, challenger)
    )
    n = len(queries)
    queries, documents = np.append(queries, theirs[0]), np.append(documents, theirs[1])
    codes = coded(documents).codes
    keys = coded(queries).codes * (1 + codes.max(initial=0)) + codes
    _, first, at = np.unique(keys, return_index=True, return_inverse=True)
    before, after, earliest = (np.full(len(first), np.inf) for _ in range(3))
    before[at[:n]], after[at[n:]] = ranks[1], theirs[3]
    earliest[at[:n]] = ranks[0]
    earliest[at[n:]] = np.minimum(earliest[at[n:]], theirs[2])
    return _Documents(queries[first], documents[first], before, after, earliest)


def _listed(
    run: Run, judgments: Judgments, how: Conventions
) -> tuple[Objects, Objects, Floats, Floats]:
    """Unjudged documents of one list: query ids, document ids, best ranks, mean ranks."""
    pairs = join(run, judgments, how, by_position=how.tie == "input")
    unjudged = ~(pairs.grades >= 0) & (pairs.query >= 0)
    queries = objects(list(pairs.query_ids))[pairs.query[unjudged]]
    best, mean = ranks_of_pairs(pairs, how)
    documents = pairs.doc_names[pairs.doc_codes[unjudged]]
    return queries, documents, best[unjudged], mean[unjudged]


def _with_grades(
    judgments: Judgments, documents: _Documents, favoured: Booleans, rel: int
) -> Judgments:
    """The judgments and one more for each document: the highest grade where favoured, else 0."""
    grades = np.asarray(judgments.grades, dtype=np.float64)
    highest = max(float(grades.max(initial=0.0)), float(rel))
    return Judgments(
        query_ids=objects([*judgments.query_ids, *documents.query_ids]),
        doc_ids=objects([*judgments.doc_ids, *documents.doc_ids]),
        grades=np.append(grades, np.where(favoured, highest, 0.0)),
    )


def _mean_delta(baseline: Evaluation, challenger: Evaluation, measure: str) -> float:
    """Mean of challenger - baseline over the queries with a value in both."""
    _, ours, theirs = np.intersect1d(
        np.array(baseline.query_ids, dtype=object),
        np.array(challenger.query_ids, dtype=object),
        assume_unique=True,
        return_indices=True,
    )
    return mean_of_defined(challenger.values[measure][theirs] - baseline.values[measure][ours])
