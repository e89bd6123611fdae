"""Oracle: what trec_eval 10 prints for its own test files (usnistgov/trec_eval, test/), per query
and for all, to the printed four digits; the commands are those of its Makefile."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from metrics import Conventions, evaluate
from tests.metrics.tables import Scores, judgments_of, run_of

CUTOFFS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)
NAMES = {
    "map": "AP",
    "Rprec": "Rprec",
    "Rprec_mult_1.00": "Rprec",
    "bpref": "bpref",
    "recip_rank": "RR",
    "infAP": "infAP",
    "ndcg": "nDCG",
    "ndcg_1=3,2=9,4=4.5": "nDCG(gain={1:3,2:9,4:4.5})",
    "set_recall": "R",
    "rbp": "RBP(p=0.9)",
    "rbp_resid": "RBP_residual(p=0.9)",
    **{f"P_{k}": f"P@{k}" for k in (*CUTOFFS, 3, 7)},
    **{f"recall_{k}": f"R@{k}" for k in (*CUTOFFS, 2000)},
    **{f"relative_P_{k}": f"R_cap@{k}" for k in CUTOFFS},
    **{f"ndcg_cut_{k}": f"nDCG@{k}" for k in (*CUTOFFS, 23)},
    **{f"map_cut_{k}": f"AP@{k}" for k in CUTOFFS},
    **{f"success_{k}": f"Success@{k}" for k in (1, 2, 5, 10, 20)},
    **{f"unj_{k}": f"unjudged@{k}" for k in (5, 10, 20)},
}
TREC = Conventions(queries="intersection")


@dataclass(frozen=True)
class Case:
    """printed: the output's file. shared: how many of its lines are measures that we share.

    apart: lines (name, query) of the same name where trec_eval means something else.
    """

    printed: str
    qrels: str
    run: str
    how: Conventions
    shared: int
    apart: frozenset[tuple[str, str]] = frozenset()


# a query that the run does not have is 0 there; all of it is unseen, so ours is 1
ALL_UNSEEN = frozenset({("rbp_resid", "302"), ("rbp_resid", "all")})
# its rbp takes the grades as gains, scaled by numbers that it does not set before reading them
BY_GAINS = frozenset(("rbp", query) for query in ("301", "302", "303", "all"))
GRADED = Conventions(queries="intersection", rel=2)
CASES = [
    Case("out.test", "qrels.test", "results.test", TREC, 13),
    Case("out.test.a", "qrels.test", "results.test", TREC, 61),
    Case("out.test.aq", "qrels.test", "results.test", TREC, 4 * 61),
    Case("out.test.aqc", "qrels.test", "results.trunc", Conventions(), 4 * 61 - 2, ALL_UNSEEN),
    Case(
        "out.test.aqcM",
        "qrels.test",
        "results.trunc",
        Conventions(depth=100),
        4 * 61 - 2,
        ALL_UNSEEN,
    ),
    Case("out.test.aql", "qrels.rel_level", "results.test", GRADED, 4 * 60, BY_GAINS),
    Case("out.test.meas_params", "qrels.test", "results.test", TREC, 4 * 12),
]


def read(path: Path, document: int, value: int) -> Scores:
    """{query: {document: value}} of a TREC file whose columns stand at the given places."""
    table: dict[str, dict[str, float]] = {}
    for line in path.read_text().splitlines():
        parts = line.split()
        table.setdefault(parts[0], {})[parts[document]] = float(parts[value])
    return table


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.printed)
def test_every_shared_measure_is_printed_alike(case: Case, data_folder: Path) -> None:
    """Each line of the output that names a measure of ours, to its last digit."""
    folder = data_folder / "trec_eval_tests"
    qrels, run = read(folder / case.qrels, 2, 3), read(folder / case.run, 2, 4)
    lines = [line.split() for line in (folder / case.printed).read_text().splitlines()]
    shared = [line for line in lines if line[0] in NAMES and (line[0], line[1]) not in case.apart]
    assert len(shared) == case.shared
    asked = sorted({NAMES[theirs] for theirs, _, _ in shared})
    found = evaluate(run_of(run), judgments_of(qrels), asked, case.how)
    for theirs, query, printed in shared:
        values = found.values[NAMES[theirs]]
        ours = np.mean(values) if query == "all" else values[found.query_ids.index(query)]
        assert f"{ours:.4f}" == printed, (theirs, query)
