"""A measure is a value: its name holds its parameters, as in ir_measures: `R(rel=2)@5`.

METRICS, at the end, is the whole list. To add a measure: one function and one row.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from metrics import binary, coverage, diversity, graded, inferred
from metrics.arrays import Floats
from metrics.errors import MetricError
from metrics.parameters import (
    Parameter,
    Value,
    choice,
    gain,
    positive_integer,
    probability,
    read_parameters,
    write,
)

_NAME = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:\((?P<inside>.*)\))?(?:@(?P<cutoff>.*))?")


@dataclass(frozen=True)
class Metric:
    """All facts of one kind of measure.

    function: (Ranking, Judged, *, k, parameters) -> (n_queries,) float64; None for oracle and
        headroom, which wrap another measure.
    cutoff: "required", "optional" (without it: full depth) or "none".
    needs_relevant: undefined for a query without a relevant document (Conventions.no_relevant).
    has_best: the perfect order of the candidates is the best value, so oracle and headroom exist.
    needs_positions: a cutoff counts by stage-1 rank, so Run.positions must be given.
    more_is_better: False where a larger value is worse: headroom, unjudged, RBP_residual.
    needs_subtopics: Judgments.subtopics must be given.
    """

    function: Callable[..., Floats] | None
    description: str
    source: str
    cutoff: str
    parameters: dict[str, Parameter] = field(default_factory=dict)
    needs_relevant: bool = True
    has_best: bool = True
    needs_positions: bool = False
    more_is_better: bool = True
    needs_subtopics: bool = False
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measure:
    """A metric with its parameters and cutoff; `str` is the canonical name.

    parameters: sorted (name, value) pairs that the name states; the others take the convention's
    or the metric's default. of: the measure that oracle or headroom wraps.
    """

    name: str
    parameters: tuple[tuple[str, Value], ...] = ()
    cutoff: int | None = None
    of: Measure | None = None

    def __str__(self) -> str:
        inside = ",".join(f"{name}={write(value)}" for name, value in self.parameters)
        inside = str(self.of) if self.of else inside
        cutoff = "" if self.cutoff is None else f"@{self.cutoff}"
        return f"{self.name}{f'({inside})' if inside else ''}{cutoff}"

    @property
    def metric(self) -> Metric:
        return METRICS[self.name]

    @property
    def innermost(self) -> Measure:
        """The measure that is computed: the wrapped one, or this."""
        return self.of or self

    def resolved(self, defaults: dict[str, Value]) -> dict[str, Any]:
        """Every parameter of the metric: from the name, else `defaults`, else the table."""
        values = {
            name: defaults.get(name, parameter.default)
            for name, parameter in self.metric.parameters.items()
        }
        return values | dict(self.parameters)


def parse_measure(name: str) -> Measure:
    """`nDCG(gain=exp2)@10`, `oracle(RR@10)`, ... -> Measure; MetricError says what is wrong."""
    found = _NAME.fullmatch(name.strip())
    if not found:
        raise MetricError(f"{name!r} is no measure; write NAME, NAME@K or NAME(parameter=value)@K")
    known = canonical_name(found["name"])
    metric, inside = METRICS[known], found["inside"] or ""
    if metric.function is None:
        return _parse_wrapper(name, known, inside, found["cutoff"])
    return Measure(
        name=known,
        parameters=read_parameters(inside, metric.parameters, known),
        cutoff=_read_cutoff(name, metric, found["cutoff"]),
    )


def canonical_name(name: str) -> str:
    """The key in METRICS of a name or an alias; MetricError with the nearest spelling."""
    spellings = {alias: key for key, row in METRICS.items() for alias in (key, *row.aliases)}
    if name in spellings:
        return spellings[name]
    folded = {spelling.lower(): key for spelling, key in spellings.items()}
    near = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.4)
    hint = f"did you mean {folded[near[0]]}? " if near else ""
    raise MetricError(f"unknown measure {name!r}; {hint}known measures: {', '.join(METRICS)}")


def _parse_wrapper(name: str, wrapper: str, inside: str, cutoff: str | None) -> Measure:
    if not inside or cutoff is not None:
        raise MetricError(f"{name!r}: write {wrapper}(MEASURE), as in {wrapper}(nDCG@10)")
    of = parse_measure(inside)
    if of.of is not None or not of.metric.has_best:
        raise MetricError(f"{name!r}: {of} has no best order, so it has no {wrapper}")
    return Measure(name=wrapper, of=of)


def _read_cutoff(name: str, metric: Metric, text: str | None) -> int | None:
    if text is None:
        if metric.cutoff == "required":
            raise MetricError(f"{name!r} needs a cutoff: write {name}@10")
        return None
    if metric.cutoff == "none":
        raise MetricError(f"{name!r} takes no cutoff; leave @{text} out")
    if not (text.isascii() and text.isdigit() and not text.startswith("0")):
        raise MetricError(f"cutoff {text!r} of {name!r} is not a whole number from 1")
    return int(text)


_REL = {"rel": positive_integer(1)}
_SHARE_OF_RANKS = {"denominator": choice("k", "returned")}
_SHARE_OF_RETURNED = {"denominator": choice("returned", "k")}

METRICS: dict[str, Metric] = {
    "nDCG": Metric(
        function=graded.ndcg,
        description="discounted cumulative gain over that of the ideal order",
        source="Jarvelin and Kekalainen 2002; trec_eval ndcg, ndcg_cut",
        cutoff="optional",
        parameters={"gain": gain(), "ideal": choice("judged", "candidates")},
        aliases=("NDCG", "ndcg"),
    ),
    "DCG": Metric(
        function=graded.dcg,
        description="discounted cumulative gain, not normalised",
        source="Jarvelin and Kekalainen 2002",
        cutoff="optional",
        parameters={"gain": gain()},
    ),
    "RR": Metric(
        function=binary.reciprocal_rank,
        description="1 / rank of the first relevant document; its mean is MRR",
        source="trec_eval recip_rank",
        cutoff="optional",
        parameters=_REL,
        aliases=("MRR",),
    ),
    "AP": Metric(
        function=binary.average_precision,
        description="mean of the precisions at the relevant documents; its mean is MAP",
        source="trec_eval map, map_cut",
        cutoff="optional",
        parameters=_REL
        | {"denominator": choice("R", "min(k,R)"), "ties": choice("mean", "grouped")},
        aliases=("MAP",),
    ),
    "P": Metric(
        function=binary.precision,
        description="share of the first k ranks that is relevant",
        source="trec_eval P",
        cutoff="required",
        parameters=_REL,
        aliases=("Precision",),
    ),
    "R": Metric(
        function=binary.recall,
        description="share of the relevant documents that is in the first k ranks",
        source="trec_eval recall, set_recall",
        cutoff="optional",
        parameters=_REL,
        aliases=("Recall",),
    ),
    "R_cap": Metric(
        function=binary.capped_recall,
        description="recall in the first k ranks over the most that k ranks can hold",
        source="Thakur et al. 2021 (BEIR) recall_cap",
        cutoff="required",
        parameters=_REL,
    ),
    "Success": Metric(
        function=binary.success,
        description="1 if a relevant document is in the first k ranks",
        source="trec_eval success",
        cutoff="required",
        parameters=_REL,
        aliases=("Hit",),
    ),
    "Rprec": Metric(
        function=binary.r_precision,
        description="precision at the number of relevant documents",
        source="trec_eval Rprec",
        cutoff="none",
        parameters=_REL,
    ),
    "F1": Metric(
        function=binary.f1,
        description="harmonic mean of precision and recall in the first k ranks",
        source="van Rijsbergen 1979",
        cutoff="required",
        parameters=_REL,
    ),
    "bpref": Metric(
        function=binary.bpref,
        description="how rarely judged non-relevant documents precede relevant ones",
        source="Buckley and Voorhees 2004; trec_eval bpref",
        cutoff="none",
        parameters=_REL,
    ),
    "infAP": Metric(
        function=inferred.inferred_average_precision,
        description="AP estimated where only a sample of the pool is judged",
        source="Yilmaz and Aslam 2006; trec_eval infAP",
        cutoff="none",
        parameters=_REL,
    ),
    "RBP": Metric(
        function=binary.rank_biased_precision,
        description="relevance met by a reader who goes on to the next rank with probability p",
        source="Moffat and Zobel 2008",
        cutoff="optional",
        parameters=_REL | {"p": probability(0.8)},
    ),
    "RBP_residual": Metric(
        function=binary.rank_biased_residual,
        description="what RBP could still gain from unjudged and unseen documents",
        source="Moffat and Zobel 2008",
        cutoff="optional",
        parameters=_REL | {"p": probability(0.8)},
        needs_relevant=False,
        more_is_better=False,
        has_best=False,
    ),
    "ERR": Metric(
        function=graded.expected_reciprocal_rank,
        description="expected 1 / rank at which a reader is satisfied, by grades",
        source="Chapelle et al. 2009; gdeval",
        cutoff="optional",
        parameters={"max": positive_integer(4)},
    ),
    "alpha_nDCG": Metric(
        function=diversity.alpha_ndcg,
        description="nDCG whose gain fades with each document on the same subtopic",
        source="Clarke et al. 2008; ndeval alpha-nDCG",
        cutoff="required",
        parameters=_REL | {"alpha": probability(0.5)},
        has_best=False,
        needs_subtopics=True,
    ),
    "subtopic_recall": Metric(
        function=diversity.subtopic_recall,
        description="share of the subtopics that a document in the first k ranks serves",
        source="Zhai et al. 2003; ndeval strec",
        cutoff="required",
        parameters=_REL,
        has_best=False,
        needs_subtopics=True,
        aliases=("StRecall",),
    ),
    "Judged": Metric(
        function=coverage.judged_share,
        description="share of the documents in the first k ranks that is judged",
        source="ir_measures Judged",
        cutoff="required",
        parameters=_SHARE_OF_RETURNED,
        needs_relevant=False,
        has_best=False,
    ),
    "unjudged": Metric(
        function=coverage.unjudged_share,
        description="share of the first k ranks that nobody judged for this query",
        source="trec_eval 10 unj",
        cutoff="required",
        parameters=_SHARE_OF_RANKS,
        needs_relevant=False,
        more_is_better=False,
        has_best=False,
    ),
    "candidate_recall": Metric(
        function=coverage.candidate_recall,
        description="share of the relevant documents that stage 1 offers",
        source="recall of the first stage",
        cutoff="optional",
        parameters=_REL,
        has_best=False,
        needs_positions=True,
    ),
    "candidate_coverage": Metric(
        function=coverage.candidate_coverage,
        description="1 if stage 1 offers at least one relevant document",
        source="success of the first stage",
        cutoff="optional",
        parameters=_REL,
        has_best=False,
        needs_positions=True,
    ),
    "oracle": Metric(
        function=None,
        description="oracle(MEASURE): its value on the perfect order of the same candidates",
        source="ceiling of any reranker",
        cutoff="none",
        has_best=False,
    ),
    "headroom": Metric(
        function=None,
        description="headroom(MEASURE): oracle minus value, what reranking could still gain",
        source="ceiling of any reranker",
        cutoff="none",
        more_is_better=False,
        has_best=False,
    ),
}
