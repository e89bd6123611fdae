"""What goes into an evaluation and what comes out of it: plain values, no behaviour but means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from metrics.arrays import Floats, Integers
from metrics.errors import MetricError
from metrics.ids import IdColumn


@dataclass(frozen=True)
class Run:
    """One system's scores: parallel 1-d arrays, one row a (query, document).

    query_ids, doc_ids: (n,) object, str, compared byte by byte; or `metrics.ids.Ids`, coded.
    scores: (n,) float64; higher is better; NaN = bad score.
    positions: (n,) int, input (stage-1) rank within the query, smaller first; None = row order.
    empty: queries for which the system returned an empty list; they are not missing, and worth 0.
    """

    query_ids: IdColumn
    doc_ids: IdColumn
    scores: Floats
    positions: Integers | None = None
    empty: tuple[str, ...] = ()


@dataclass(frozen=True)
class Judgments:
    """All judged documents, retrieved or not; a pair that is absent is unjudged, which is not 0.

    query_ids, doc_ids: (n,) object, str, or Ids.
    grades: (n,) float64, integers unless gains="float"; negative = in the pool, not judged.
    subtopics: (n,) object, str; a document is then judged once a subtopic (TREC diversity qrels),
        and measures that know no subtopics use its highest grade. None = there are none.
    """

    query_ids: IdColumn
    doc_ids: IdColumn
    grades: Floats
    subtopics: IdColumn | None = None


CHOICES: Mapping[str, tuple[str, ...]] = {
    "tie": ("trec", "docid_asc", "input", "expected", "pessimistic", "optimistic"),
    "queries": ("qrels", "intersection"),
    "no_relevant": ("zero", "skip", "nan"),
    "on_bad_score": ("error", "worst"),
    "on_duplicate": ("error", "max"),
    "on_conflict": ("error", "max"),
    "score_dtype": ("float64", "float32"),
    "gains": ("linear", "exp2", "float"),
}


@dataclass(frozen=True)
class Conventions:
    """How odd input is treated; every choice feeds all measures alike.

    tie: order of documents with equal scores. trec = doc_id descending by UTF-8 bytes (trec_eval);
        docid_asc = ascending; input = by Run.positions; expected = exact mean over all orders
        (McSherry and Najork 2008); pessimistic, optimistic = lowest, highest grade first.
    queries: qrels = every judged query counts, 0 where the run has none of it (trec_eval -c);
        intersection = queries in both (trec_eval without -c).
    no_relevant: value of a query without a relevant document: zero = 0 (trec_eval), skip = the
        query is left out, nan = NaN in the measures that need one.
    on_bad_score: NaN scores raise, or rank behind every other score (tied with each other).
    on_duplicate: a (query, document) twice in a run raises, or keeps its best score.
    on_conflict: a (query, document) judged twice raises, or keeps its highest grade.
    score_dtype: float32 compares scores as trec_eval 9 and pytrec_eval do.
    gains: gain of nDCG and DCG where the name does not say; float = linear, and grades may be
        fractions, which otherwise raise.
    rel: lowest relevant grade of binary measures where the name does not say.
    depth: keep the first `depth` ranks of every query, None = all (trec_eval -M); with
        tie="expected" a depth that cuts a group of ties raises.
    judged_only: leave unjudged documents out of every list, after `depth` has cut it (condensed
        lists, trec_eval -J).
    ignore_identical_ids: leave out documents whose id is the query's (BEIR's default).
    """

    tie: str = "trec"
    queries: str = "qrels"
    no_relevant: str = "zero"
    on_bad_score: str = "error"
    on_duplicate: str = "error"
    on_conflict: str = "error"
    score_dtype: str = "float64"
    gains: str = "linear"
    rel: int = 1
    depth: int | None = None
    judged_only: bool = False
    ignore_identical_ids: bool = False

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self) if field.name in CHOICES):
            value = getattr(self, name)
            if value not in CHOICES[name]:
                known = ", ".join(CHOICES[name])
                raise MetricError(f"{name}={value!r} is not a convention; choose one of {known}")
        if self.rel < 1:
            raise MetricError(f"rel={self.rel} would make grade 0 relevant; choose 1 or more")
        if self.depth is not None and self.depth < 1:
            raise MetricError(f"depth={self.depth} keeps no document; choose 1 or more, or None")


@dataclass(frozen=True)
class Evaluation:
    """One system's values per query, with what a reader must know beside them.

    query_ids: evaluated queries, sorted by UTF-8 bytes.
    values: measure name as asked -> (n_queries,) float64, NaN where undefined.
    missing: judged queries of which the run has no document. unjudged_queries: queries of the run
        without judgments, left out. no_relevant: judged queries without a relevant document.
    tie_rate: share of the evaluated documents whose score another of the same query has.
    ties_at_cutoff: cutoff k (and Conventions.depth) -> number of queries whose ranks k and k+1
        have the same score.
    bad_scores: NaN scores met. tied_share: (n_queries,) float64, tie_rate of each query.
    unreachable: evaluated queries with relevant judged documents of which the run holds none.
    tie_range: measure name -> mean over the same queries when tied documents stand lowest grade
        first and highest grade first, the smaller of the two values of each query before the
        greater; both are the mean where no ties are. They bound the mean of every order of ties,
        but for AP(ties=grouped), infAP with negative grades, measures of subtopics, gains that fall
        with the grade, and, where `depth` cuts ties, ideal=candidates, oracle and headroom.
    """

    query_ids: tuple[str, ...]
    values: Mapping[str, Floats]
    missing: tuple[str, ...]
    unjudged_queries: tuple[str, ...]
    no_relevant: tuple[str, ...]
    tie_rate: float
    ties_at_cutoff: Mapping[int, int]
    bad_scores: int
    tied_share: Floats
    unreachable: tuple[str, ...]
    tie_range: Mapping[str, tuple[float, float]]

    def mean(self, measure: str) -> float:
        """Mean over the queries with a value; NaN where there are none."""
        return mean_of_defined(self.values[measure])

    def n(self, measure: str) -> int:
        """Number of queries that the mean rests on."""
        return int(np.count_nonzero(~np.isnan(self.values[measure])))


def mean_of_defined(values: Floats) -> float:
    """Mean of the values that are not NaN; NaN where there are none."""
    defined = values[~np.isnan(values)]
    return float(np.mean(defined)) if defined.size else float("nan")
