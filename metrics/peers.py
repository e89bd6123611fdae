"""What other tools compute: their conventions as presets, so that their numbers can be reproduced.

PEERS, at the end, is the whole list. A preset is the conventions of `evaluate` plus what a tool
does differently for single measures, and how it sees judgments. `differs` says what it does not
reproduce. Seen by running the tools and in their sources: trec_eval 9.0.8 and 10.0-rc3,
pytrec_eval-terrier 0.5.11, ir_measures 0.4.3, ranx 0.3.21, mteb 2.26.24, BEIR 2.2.0,
sentence-transformers 6.2.0, msmarco_passage_eval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from metrics.arrays import Floats
from metrics.errors import MetricError
from metrics.evaluation import evaluate
from metrics.measures import METRICS, Measure, parse_measure
from metrics.records import Conventions, Evaluation, Judgments, Run


@dataclass(frozen=True)
class Peer:
    """All facts of one tool.

    conventions: of most measures. exceptions: measure name, with `@` where only its cut versions
        are meant -> the conventions that differ. renamed: measure name -> parameters that the tool
        fixes. order: rank where the tool ranks by the rank column. binary: grades above 0 are 1.
    negatives: zero where the tool takes negative grades for judged non-relevant.
    retrieved_only: the tool knows no document that was not retrieved. rel_cuts_gains: grades below
        `rel` have no gain either. last_first: ties go against the input order.
    """

    conventions: Conventions
    measures: tuple[str, ...]
    source: str
    exceptions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    fixed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    order: str = "score"
    binary: bool = False
    negatives: str = "unjudged"
    retrieved_only: bool = False
    rel_cuts_gains: bool = False
    last_first: bool = False
    differs: tuple[str, ...] = ()


def peer(name: str) -> Peer:
    """The preset of that name; MetricError lists the known ones."""
    if name not in PEERS:
        raise MetricError(f"unknown tool {name!r}; known: {', '.join(PEERS)}")
    return PEERS[name]


def evaluate_as(
    tool: Peer,
    run: Run,
    judgments: Judgments,
    measures: Sequence[str],
    overrides: Mapping[str, Any] | None = None,
) -> Evaluation:
    """`evaluate` under a tool's conventions, those of `overrides` replaced for every measure.

    Where measures of one tool count other queries, the queries are those of any, and a measure is
    NaN where it does not count the query.
    """
    changed = dict(overrides or {})
    rel = changed.get("rel", tool.conventions.rel)
    seen = _as_seen(tool, judgments, run, rel)
    listed = _last_first(run) if tool.last_first else run
    groups: dict[Conventions, dict[str, str]] = {}
    for name in measures:
        measure = parse_measure(name)
        how = replace(tool.conventions, **{**_exceptions(tool, measure), **changed})
        groups.setdefault(how, {})[name] = str(_fixed(tool, measure))
    first = replace(tool.conventions, **changed)
    groups = {first: groups.pop(first, {}), **groups}
    found = [
        (evaluate(listed, seen, list(asked.values()), how), asked) for how, asked in groups.items()
    ]
    return _merged(found, list(measures))


def _exceptions(tool: Peer, measure: Measure) -> dict[str, Any]:
    inner = measure.innermost
    cut = dict(tool.exceptions.get(f"{inner.name}@", {})) if inner.cutoff else {}
    return {**dict(tool.exceptions.get(inner.name, {})), **cut}


def _fixed(tool: Peer, measure: Measure) -> Measure:
    """The measure with the parameters that the tool fixes, where the name does not say."""
    if measure.of is not None:
        return replace(measure, of=_fixed(tool, measure.of))
    parameters = {**tool.fixed.get(measure.name, {}), **dict(measure.parameters)}
    return replace(measure, parameters=tuple(sorted(parameters.items())))


def _as_seen(tool: Peer, judgments: Judgments, run: Run, rel: int) -> Judgments:
    """Judgments as the tool takes them."""
    grades = np.asarray(judgments.grades, np.float64)
    if tool.negatives == "zero":
        grades = np.maximum(grades, 0.0)
    if tool.retrieved_only:
        # a positive that was not retrieved is unknown to the tool, but its query still counts
        retrieved = set(zip(run.query_ids.tolist(), run.doc_ids.tolist(), strict=True))
        pairs = zip(judgments.query_ids.tolist(), judgments.doc_ids.tolist(), strict=True)
        grades = np.where([pair in retrieved for pair in pairs], grades, np.minimum(grades, 0.0))
    if tool.rel_cuts_gains:
        grades = np.where(grades >= rel, grades, np.minimum(grades, 0.0))
    if tool.binary:
        grades = np.where(grades > 0, 1.0, grades)
    return replace(judgments, grades=grades)


def _last_first(run: Run) -> Run:
    positions = np.arange(len(run.scores)) if run.positions is None else run.positions
    return replace(run, positions=-np.asarray(positions))


def _merged(found: list[tuple[Evaluation, dict[str, str]]], measures: list[str]) -> Evaluation:
    """One evaluation of all groups: queries of any, each measure NaN where it left one out."""
    base = found[0][0]
    query_ids = tuple(sorted({query for part, _ in found for query in part.query_ids}))
    place = {query: at for at, query in enumerate(query_ids)}
    values: dict[str, Floats] = {}
    ranges: dict[str, tuple[float, float]] = {}
    cutoffs: dict[int, int] = {}
    for part, asked in found:
        at = np.array([place[query] for query in part.query_ids], np.int64)
        for name, canonical in asked.items():
            values[name] = np.full(len(query_ids), np.nan)
            values[name][at] = part.values[canonical]
            ranges[name] = part.tie_range[canonical]
        cutoffs |= part.ties_at_cutoff
    shares = np.full(len(query_ids), np.nan)
    for part, _ in found[::-1]:
        shares[[place[query] for query in part.query_ids]] = part.tied_share
    return replace(
        base,
        query_ids=query_ids,
        values={name: values[name] for name in measures},
        tie_range={name: ranges[name] for name in measures},
        ties_at_cutoff=dict(sorted(cutoffs.items())),
        tied_share=shares,
        missing=max((part.missing for part, _ in found), key=len),
    )


_TREC = ("AP", "Rprec", "bpref", "RR", "P@5", "P@10", "R@100", "nDCG@10", "nDCG")
_CUSTOM_BEIR = {"score_dtype": "float64", "tie": "input", "queries": "qrels"}
_BY_ID_ASCENDING = {"score_dtype": "float64", "tie": "docid_asc"}

PEERS: dict[str, Peer] = {
    "trec_eval9": Peer(
        Conventions(score_dtype="float32", queries="intersection", on_bad_score="worst"),
        _TREC,
        "trec_eval 9.0.8 without -c; with -c: --queries qrels",
        differs=(
            "fractional grades are cut to integers there, an error here",
            "a query whose judgments are all negative stops it (exit 4), 0 here",
        ),
    ),
    "trec_eval10": Peer(
        Conventions(on_bad_score="worst"),
        _TREC,
        "trec_eval 10.0-rc3 with -c; without it a judged query that the run lacks stops it",
        differs=("fractional grades are cut to integers there, an error here",),
    ),
    "pytrec_eval": Peer(
        Conventions(score_dtype="float32", queries="intersection", on_bad_score="worst"),
        _TREC,
        "pytrec_eval-terrier 0.5.11",
        differs=("its dictionaries keep the last of two equal documents, an error here",),
    ),
    "ir_measures": Peer(
        Conventions(score_dtype="float32", on_bad_score="worst"),
        ("AP", "RR", "P@5", "R@100", "nDCG@10", "nDCG", "Judged@10"),
        "ir_measures 0.4.3: pytrec_eval for most, msmarco for RR@k, its own Judged@k",
        exceptions={"RR@": _BY_ID_ASCENDING, "Judged": _BY_ID_ASCENDING},
        differs=(
            "Judged@k takes negative grades for judged there, not here",
            "a NaN score is first in RR@k there and last in RR, last in both here",
            "the last of two equal documents counts there, an error here",
        ),
    ),
    "mteb": Peer(
        Conventions(score_dtype="float32", queries="intersection"),
        ("nDCG@10", "AP@10", "R@10", "P@10", "RR@10", "Success@10"),
        "mteb 2.26.24 calculate_retrieval_scores (ties since its #5136)",
        exceptions={"RR": {"score_dtype": "float64"}},
        differs=("means are rounded to 5 digits there", "a NaN score is an error here"),
    ),
    "beir": Peer(
        Conventions(score_dtype="float32", queries="intersection", ignore_identical_ids=True),
        ("nDCG@10", "AP@10", "R@10", "P@10", "RR@10", "R_cap@10", "Success@10"),
        "BEIR 2.2.0 EvaluateRetrieval; MRR, R_cap and accuracy over all judged queries",
        exceptions={"RR": _CUSTOM_BEIR, "R_cap": _CUSTOM_BEIR, "Success": _CUSTOM_BEIR},
        differs=(
            "means are rounded to 5 digits there",
            "a query without a relevant document stops R_cap there, 0 here",
            "hole@k pools the judged documents of all queries there; unjudged@k is per query",
        ),
    ),
    "ranx": Peer(
        Conventions(tie="input"),
        ("nDCG@10", "RR@10", "AP@10", "P@10", "R@10", "Success@10", "bpref"),
        "ranx 0.3.21 evaluate with make_comparable=True",
        negatives="zero",
        rel_cuts_gains=True,
        differs=(
            "from 16 documents a query its sort leaves no defined order of ties",
            "bpref is NaN there without a judged non-relevant document, 1 here where all are found",
            "bpref with rel above 1 comes out lower there",
            "RBP takes grades for weights there, relevant or not here",
        ),
    ),
    "st": Peer(
        Conventions(tie="input", queries="intersection"),
        ("nDCG@10", "RR@10", "AP"),
        "sentence-transformers 6.2 CrossEncoderRerankingEvaluator, scikit-learn's nDCG and AP",
        exceptions={"nDCG": {"tie": "expected"}, "AP": {"tie": "expected"}},
        fixed={"AP": {"ties": "grouped"}},
        binary=True,
        retrieved_only=True,
        last_first=True,
        differs=("numpy's argsort leaves ties of MRR in no defined order on some processors",),
    ),
    "msmarco": Peer(
        Conventions(tie="input"),
        ("RR@10",),
        "msmarco_passage_eval: MRR@10 by the rank column, over all judged queries",
        order="rank",
        differs=("every line of its qrels is relevant, whatever the grade; grade >= 1 here",),
    ),
}
assert all(name.rstrip("@") in METRICS for row in PEERS.values() for name in row.exceptions)
