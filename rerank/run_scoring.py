"""Anyone's run against anyone's judgments: from two files to values per query and what to know.

What changes the numbers (ids made equal, equal texts taken together, order by rank) happens only
where it is asked for, and is counted; what could mislead is said in `warnings`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import metrics
from metrics.arrays import Floats
from metrics.ids import Ids, coded, objects
from metrics.peers import evaluate_as, peer
from rerank.ceilings import first_stage, measured_beside, stage_1_ranks, with_ceiling
from rerank.duplicate_texts import Merged, merged_duplicates, text_groups
from rerank.errors import ConfigError, InputError
from rerank.files.ahead import read_ahead
from rerank.files.qrels_files import QrelsFile, read_qrels_file
from rerank.files.run_files import RunFile, read_run_file
from rerank.files.shared_names import under_one_list
from rerank.run_warnings import warnings_of

ORDERS = ("score", "rank")
_ROWS = re.compile(r" \(rows? [^)]*\)")
_OPTION = re.compile(r"set (?P<name>\w+)='(?P<value>\w+)'")


@dataclass(frozen=True)
class Scoring:
    """How runs are read and evaluated.

    compat: a tool of `metrics.peers.PEERS`, or "" for our own conventions. conventions: fields of
    `metrics.Conventions` that are stated, on top of the tool's. order: score, rank or "" for the
    tool's. dedupe: text or "". normalise_ids: NFC or "".
    """

    compat: str = ""
    conventions: Mapping[str, Any] = field(default_factory=dict)
    order: str = ""
    dedupe: str = ""
    normalise_ids: str = ""

    @property
    def by_rank(self) -> bool:
        return (self.order or (peer(self.compat).order if self.compat else "score")) == "rank"

    @property
    def resolved(self) -> metrics.Conventions:
        """The conventions of most measures."""
        base = peer(self.compat).conventions if self.compat else metrics.Conventions()
        return replace(base, **self.conventions)


@dataclass(frozen=True)
class ScoredRun:
    """One run's evaluation. duplicate_texts: ids of documents of one query with the same text, each
    in the order of the run. disagreeing: queries whose rank column contradicts the scores.
    """

    run: RunFile
    how: metrics.Conventions
    listed: metrics.Run  # as evaluated
    judgments: metrics.Judgments  # as evaluated
    evaluation: metrics.Evaluation
    duplicate_texts: tuple[tuple[str, ...], ...]
    warnings: tuple[str, ...]
    disagreeing: tuple[str, ...]


def score_files(
    qrels: Path,
    runs: Sequence[Path],
    measures: Sequence[str],
    scoring: Scoring,
    by: str = "",
    candidates: Path | None = None,
) -> list[ScoredRun]:
    """Every run against the judgments; a run is read while the one before is evaluated."""
    fractions = scoring.resolved.gains == "float"
    first_stage = [partial(read_run_file, candidates)] if candidates else []
    read = read_ahead(
        [
            partial(read_qrels_file, qrels, fractions=fractions),
            *first_stage,
            *(partial(read_run_file, path, by) for path in runs),
        ]
    )
    judged, listed = next(read), next(read) if candidates else None
    return [score_run(run, judged, measures, scoring, listed) for run in read]


def score_run(
    run: RunFile,
    qrels: QrelsFile,
    measures: Sequence[str],
    scoring: Scoring,
    candidates: RunFile | None = None,
) -> ScoredRun:
    """Values of every measure for one run.

    candidates: the first stage's list; gives texts, and the ranks that `tie=input` and
    candidate_recall@N go by. InputError names the lines of the file that is wrong.
    """
    if not len(qrels.grades):
        raise InputError(f"{qrels.path} holds no judgment; there is nothing to evaluate against")
    parsed = [metrics.parse_measure(name) for name in measures]
    _check_positions(parsed, candidates)
    disagreeing = rank_disagreements(run)
    run, candidates = _normalised(run, scoring), candidates and _normalised(candidates, scoring)
    placed = _with_candidates(run, candidates) if candidates else run
    plain = _columns(run, placed, qrels, parsed, scoring)
    groups = text_groups(plain.run, placed.texts) if placed.texts is not None else ()
    merged = _deduplicated(plain, placed, scoring)
    asked = list(measures) if candidates is None else measured_beside(measures)
    evaluation = _evaluated(merged, asked, scoring, run, qrels)
    if candidates is not None:
        stage_1 = Merged(first_stage(candidates), plain.judgments)
        if candidates.texts is not None:
            stage_1 = _deduplicated(stage_1, candidates, scoring)
        evaluation = with_ceiling(evaluation, stage_1, measures, scoring.resolved)
    listed, judged = merged.run, merged.judgments
    return ScoredRun(
        run=run,
        how=scoring.resolved,
        listed=listed,
        judgments=judged,
        evaluation=evaluation,
        duplicate_texts=groups,
        warnings=warnings_of(run, qrels, listed, judged, evaluation, disagreeing, groups, scoring),
        disagreeing=disagreeing,
    )


def _columns(
    run: RunFile,
    placed: RunFile,
    qrels: QrelsFile,
    measures: Sequence[metrics.Measure],
    scoring: Scoring,
) -> Merged:
    """Run and judgments as `metrics` takes them, their ids under one list of names.

    placed: the run with the ranks of the first stage, where there is one; run: with its own, by
    which order=rank goes.
    """
    queries, judged_queries = under_one_list(placed.query_ids, _nfc(qrels.query_ids, scoring))
    documents, judged_documents = under_one_list(placed.doc_ids, _nfc(qrels.doc_ids, scoring))
    listed = metrics.Run(
        query_ids=queries,
        doc_ids=documents,
        scores=_order(run, scoring),
        positions=None if placed is run else placed.ranks,
        empty=placed.empty,
    )
    judged = metrics.Judgments(
        query_ids=judged_queries,
        doc_ids=judged_documents,
        grades=qrels.grades,
        subtopics=qrels.subtopics if any(m.metric.needs_subtopics for m in measures) else None,
    )
    return Merged(listed, judged)


def _deduplicated(plain: Merged, file: RunFile, scoring: Scoring) -> Merged:
    """Each text once a query where that is asked for."""
    if scoring.dedupe != "text":
        return plain
    if file.texts is None:
        raise ConfigError(
            f"--dedupe text: {file.path} holds no texts; give the first stage's candidates with "
            "their texts by --candidates"
        )
    return merged_duplicates(plain.run, plain.judgments, file.texts)


def rank_disagreements(run: RunFile) -> tuple[str, ...]:
    """Queries in which a better rank has a lower score, sorted; equal ranks say nothing."""
    if run.ranks is None or not run.scored or not len(run.scores):
        return ()
    query = run.query_ids.codes
    order = np.lexsort((-run.scores, run.ranks, query))
    follows = query[order][1:] == query[order][:-1]
    worse_rank = run.ranks[order][1:] > run.ranks[order][:-1]
    better_score = run.scores[order][1:] > run.scores[order][:-1]
    wrong = order[1:][follows & worse_rank & better_score]
    return tuple(sorted(run.query_ids[wrong].present()))


def _check_positions(measures: Sequence[metrics.Measure], candidates: RunFile | None) -> None:
    for measure in measures:
        if measure.metric.needs_positions and measure.cutoff and candidates is None:
            raise ConfigError(
                f"{measure} counts by stage-1 rank; give the first stage's list by --candidates, "
                f"or ask for {measure.name}, which counts all of the run"
            )


def _normalised(run: RunFile, scoring: Scoring) -> RunFile:
    return replace(run, query_ids=_nfc(run.query_ids, scoring), doc_ids=_nfc(run.doc_ids, scoring))


def _nfc(ids: Ids, scoring: Scoring) -> Ids:
    """Ids of the same NFC form become one."""
    if scoring.normalise_ids != "NFC":
        return ids
    names = coded(objects([unicodedata.normalize("NFC", name) for name in ids.names.tolist()]))
    return Ids(names.codes[ids.codes], names.names)


def _order(run: RunFile, scoring: Scoring) -> Floats:
    if not scoring.by_rank:
        return run.scores
    if run.ranks is None:
        raise ConfigError(
            f"order=rank: {run.path} has no whole-number ranks; leave it out, the scores decide"
        )
    scores: Floats = -run.ranks.astype(np.float64)
    return scores


def _with_candidates(run: RunFile, candidates: RunFile) -> RunFile:
    """The run with the ranks and texts of the first stage, whose candidates it must hold."""
    at = {
        pair: row
        for row, pair in enumerate(zip(candidates.query_ids, candidates.doc_ids, strict=True))
    }
    if len(at) < len(candidates.scores):
        raise InputError(
            f"{candidates.path} lists a document twice for a query; keep one row of each candidate"
        )
    pairs = zip(run.query_ids, run.doc_ids, strict=True)
    rows = np.array([at.get(pair, -1) for pair in pairs], np.int64)
    if np.any(rows < 0):
        first = int(np.argmax(rows < 0))
        raise InputError(
            f"{run.place(first)}: document '{run.doc_ids[first]}' of query "
            f"'{run.query_ids[first]}' is not among the candidates of {candidates.path}; give the "
            "candidates that this run ranks"
        )
    texts = run.texts if candidates.texts is None else candidates.texts[rows]
    return replace(run, ranks=stage_1_ranks(candidates)[rows], texts=texts)


def _evaluated(
    merged: Merged, measures: Sequence[str], scoring: Scoring, run: RunFile, qrels: QrelsFile
) -> metrics.Evaluation:
    try:
        if scoring.compat:
            tool = peer(scoring.compat)
            return evaluate_as(tool, merged.run, merged.judgments, measures, scoring.conventions)
        return metrics.evaluate(merged.run, merged.judgments, measures, scoring.resolved)
    except metrics.MetricError as error:
        if not error.rows:
            raise
        file, kept = (run, merged.rows) if error.table == "run" else (qrels, merged.judgment_rows)
        rows = error.rows if kept is None else kept[list(error.rows)].tolist()
        what = _OPTION.sub(_option, _ROWS.sub("", str(error)))
        raise InputError(f"{file.place(*rows)}: {what}") from error


def _option(found: re.Match[str]) -> str:
    """`set on_duplicate='max'` -> `--on-duplicate max`."""
    return f"use --{found['name'].replace('_', '-')} {found['value']}"
