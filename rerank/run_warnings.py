"""What could make a reader trust a run's numbers too much, one sentence each."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

import metrics
from metrics.ids import IdColumn, coded
from rerank.files.qrels_files import QrelsFile
from rerank.files.run_files import RunFile

MANY_TIES = 0.2  # share of tied documents from which the tie rule is worth a sentence
SHOWN = 3  # ids named in a sentence


def warnings_of(
    run: RunFile,
    qrels: QrelsFile,
    listed: metrics.Run,
    judged: metrics.Judgments,
    evaluation: metrics.Evaluation,
    disagreeing: Sequence[str],
    duplicate_texts: Sequence[Sequence[str]],
    scoring: Any,
) -> tuple[str, ...]:
    """Sentences about one run, the file's own notes first."""
    found = [*run.notes]
    if not len(run.scores):
        found.append("the run is empty: every judged query counts as 0")
    elif evaluation.unjudged_queries and not set(evaluation.query_ids) - set(evaluation.missing):
        found.append("no query of the run is judged: check that both files speak of the same ids")
    if disagreeing and not scoring.by_rank:
        found.append(
            f"rank_disagrees={len(disagreeing)}: the rank column contradicts the scores of "
            f"{_queries(disagreeing)}; the score decides, --order rank goes by the ranks"
        )
    saturated = saturated_queries(listed) if run.scored and not scoring.by_rank else []
    if saturated:
        found.append(
            f"scores saturate: {_queries(saturated)} with several documents at exactly 1, the "
            "largest score; write the raw logits, their order is lost in the tie rule"
        )
    if evaluation.tie_rate > MANY_TIES:
        found.append(
            f"{evaluation.tie_rate:.0%} of the documents are tied: the tie rule "
            f"'{scoring.resolved.tie}' decides their order, see the range"
        )
    if evaluation.bad_scores:
        found.append(f"bad_scores={evaluation.bad_scores}: these documents rank last")
    if duplicate_texts:
        found.append(
            f"duplicate_text_groups={len(duplicate_texts)}: documents of one query with the same "
            f"text ({', '.join(duplicate_texts[0])}); "
            + ("each text counts once" if scoring.dedupe else "--dedupe text takes each as one")
        )
    if not scoring.normalise_ids:
        found += _composed(listed, judged)
    if len(qrels.provenances.present()) > 1:
        kinds = Counter(qrels.provenances)
        shares = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        found.append(f"the means mix judgments of different provenance: {shares}")
    return tuple(found)


def saturated_queries(run: metrics.Run) -> list[str]:
    """Queries with two or more documents at exactly 1 in a run whose scores all lie in [0, 1].

    A sigmoid in bf16 gives 1 from a logit of about 6.24 on, in fp32 from about 16.6 on.
    """
    scores = np.asarray(run.scores, np.float64)
    # fmin and fmax pass over NaN
    if not len(scores) or np.fmin.reduce(scores) < 0 or np.fmax.reduce(scores) != 1.0:
        return []
    counts = Counter(run.query_ids[scores == 1.0].tolist())
    return sorted(query for query, count in counts.items() if count > 1)


def _composed(run: metrics.Run, judged: metrics.Judgments) -> list[str]:
    """Ids that would meet only after Unicode normalisation; file names are a usual source."""
    found = []
    for kind, ours, theirs in (
        ("query", _beyond_ascii(run.query_ids), _beyond_ascii(judged.query_ids)),
        ("document", _beyond_ascii(run.doc_ids), _beyond_ascii(judged.doc_ids)),
    ):
        unmet = {unicodedata.normalize("NFC", name) for name in ours - theirs}
        met = unmet & {unicodedata.normalize("NFC", name) for name in theirs - ours}
        if met:
            found.append(
                f"{len(met)} {kind} ids of the run differ from judged ones only in Unicode "
                f"composition ({_named(sorted(met))}); --normalise-ids NFC takes them as equal"
            )
    return found


def _beyond_ascii(ids: IdColumn) -> set[str]:
    names = coded(ids).present()
    if "".join(names).isascii():
        return set()
    return {name for name in names if not name.isascii()}


def _queries(ids: Sequence[str]) -> str:
    return f"{len(ids)} {'query' if len(ids) == 1 else 'queries'} ({_named(ids)})"


def _named(ids: Sequence[str]) -> str:
    return ", ".join(ids[:SHOWN]) + (", ..." if len(ids) > SHOWN else "")
