"""What candidate lists hold: recall by depth, unjudged documents, labels that the order tells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

import metrics
from metrics.ids import objects
from rerank.checking.findings import Finding
from rerank.checking.leaks import NEARLY_ALL, Leak, find_leaks, first
from rerank.checking.material import CandidateList, Material

DEPTHS = (1, 5, 10, 20, 50, 100, 1000)
BY_ID = ("ids_ascending", "ids_descending")
FLAT = 5  # times as often, see `_flat_first`
UNJUDGED_AT = 10
FEW_LISTS = 20  # that show something: below, `_nearly_all_first` says nothing
MANY_LISTS = 50  # from which all of them are no luck
UNUSED = "; this task takes the list as a set, so the order is not used"
SAID = {
    "beyond_scores": "the order of the file puts all relevant documents first in {separated} of "
    "{lists} lists, more than its scores can explain (chance {chance}): the order holds the "
    "labels; never let it break ties",
    "first": "all relevant documents stand first in {separated} of {lists} lists, more often than "
    "any ranker known (chance {chance} for one right on 99% of queries with one relevant document, "
    "90% with two, 80% with more): the lists were made from the labels",
    "last": "all relevant documents stand last in {separated} of {lists} lists (chance {chance} "
    "for a ranker that does so once in ten): they were appended to the lists",
    "ids_ascending": "sorted by document id, all relevant documents stand first in {separated} of "
    "{lists} lists (chance {chance} for random ids): ids give the labels away, and tools that "
    "break ties by id will use them",
    "ids_descending": "sorted by document id downwards, all relevant documents stand first in "
    "{separated} of {lists} lists (chance {chance} for random ids): ids give the labels away, and "
    "tools that break ties by id will use them",
}


def candidate_findings(material: Material, *, ordered: bool = True) -> Iterator[Finding]:
    """ordered: does the order of the lists in their file mean anything to whoever reads it?"""
    if material.lists is None:
        return
    if not any(entry.doc_ids for entry in material.lists.values()):
        yield _nothing_listed(len(material.lists))
        return
    yield _lengths(material.lists, material)
    yield from _recall(material, ordered)
    if ordered:
        yield from _unjudged(material)
    yield from _grades_in_lists(material)
    if not material.computed:
        leaks = find_leaks(material.lists, material.relevant)
        yield from (_leak(leak, used=ordered or leak.kind in BY_ID) for leak in leaks)
        if not leaks:
            yield from _nearly_all_first(material, ordered)
            yield from _flat_first(material)


def _nothing_listed(n: int) -> Finding:
    words = ": every list is empty" if n else ""
    values = {"lists": n, "min": 0, "max": 0}
    return Finding("error", "no_candidates", f"there are no candidates{words}", values=values)


def _lengths(lists: dict[str, CandidateList], material: Material) -> Finding:
    sizes = np.array([len(entry.doc_ids) for entry in lists.values()], np.int64)
    scored = sum(entry.scores is not None for entry in lists.values())
    have = {len(lists): "with scores", 0: "without scores: their order is all there is"}
    return Finding(
        "fact",
        "candidates",
        f"{len(lists):,} candidate lists of {sizes.min():,} to {sizes.max():,} documents, "
        + (
            f"chosen by {material.chosen_by}"
            if material.computed
            else have.get(scored, f"{scored:,} of them with scores")
        ),
        values={"lists": len(lists), "min": int(sizes.min()), "max": int(sizes.max())},
    )


def _recall(material: Material, ordered: bool) -> Iterator[Finding]:
    """Candidate recall over judged queries, at depths; of sets, which have none, of whole lists."""
    assert material.lists is not None
    deepest = max(len(entry.doc_ids) for entry in material.lists.values())
    depths = [depth for depth in DEPTHS if depth < deepest and ordered] + [deepest]
    judgments = _judgments(material)
    if not material.relevant:
        return
    names = [f"candidate_recall@{depth}" for depth in depths]
    found = metrics.evaluate(_run(material), judgments, names, metrics.Conventions())
    values = {str(depth): found.mean(name) for depth, name in zip(depths, names, strict=True)}
    words = ", ".join(f"{value:.4f} at {depth}" for depth, value in values.items())
    yield Finding(
        "fact",
        "candidate_recall",
        f"candidate recall: {words}"
        + ("" if ordered else ", of whole lists: they are sets, whose order tells no other depth"),
        len(found.query_ids),
        values=values,
    )


def _unjudged(material: Material) -> Iterator[Finding]:
    """The share of the candidates at ranks 1 to 10 that nobody judged (or with a grade below 0).

    Of evaluated queries; a place or a list that is not there is neither judged nor unjudged.
    """
    if not material.judgments:
        return
    asked = None if material.evaluates_all else material.grades.keys()
    grades = [
        material.grades.get(query_id, {}).get(doc_id, -1)
        for query_id, entry in (material.lists or {}).items()
        if asked is None or query_id in asked
        for doc_id in _in_order(material, entry)[:UNJUDGED_AT]
    ]
    share = sum(grade < 0 for grade in grades) / len(grades) if grades else None
    yield Finding(
        "fact",
        "unjudged",
        "unjudged: no judged query has a candidate"
        if share is None
        else f"unjudged: {share:.1%} of the {len(grades):,} candidates at ranks 1 to "
        f"{UNJUDGED_AT}; they count as no gain",
        values={"unjudged@10": share, "candidates": len(grades)},
    )


def _run(material: Material) -> metrics.Run:
    """The lists of judged queries, in the order in which they stand."""
    judged = material.grades.keys()
    kept = {
        key: _in_order(material, entry)
        for key, entry in (material.lists or {}).items()
        if key in judged and entry.doc_ids
    }
    queries = [key for key, doc_ids in kept.items() for _ in doc_ids]
    places = [place for doc_ids in kept.values() for place in range(1, len(doc_ids) + 1)]
    positions = np.array(places, np.int64)
    return metrics.Run(
        query_ids=objects(queries),
        doc_ids=objects([doc_id for doc_ids in kept.values() for doc_id in doc_ids]),
        scores=-positions.astype(np.float64),
        positions=positions,
    )


def _in_order(material: Material, entry: CandidateList) -> tuple[str, ...]:
    return best_first(entry) if material.by_score else entry.doc_ids


def best_first(entry: CandidateList) -> tuple[str, ...]:
    """Score descending, then id descending by UTF-8 bytes, as a run is frozen."""
    if entry.scores is None:
        return entry.doc_ids
    pairs = zip(entry.doc_ids, entry.scores, strict=True)
    order = sorted(pairs, key=lambda pair: pair[0].encode("utf-8", "surrogatepass"), reverse=True)
    return tuple(doc_id for doc_id, _ in sorted(order, key=lambda pair: -pair[1]))


def _judgments(material: Material) -> metrics.Judgments:
    rows = [(q, d, g) for q, graded in material.grades.items() for d, g in graded.items()]
    return metrics.Judgments(
        query_ids=objects([query_id for query_id, _, _ in rows]),
        doc_ids=objects([doc_id for _, doc_id, _ in rows]),
        grades=np.array([grade for _, _, grade in rows], np.float64),
    )


def _grades_in_lists(material: Material) -> Iterator[Finding]:
    found: Counter[str] = Counter()
    for query_id, entry in (material.lists or {}).items():
        graded = material.grades.get(query_id, {})
        for doc_id in entry.doc_ids:
            grade = graded.get(doc_id)
            found["unjudged" if grade is None else f"{grade:g}"] += 1
    words = ", ".join(f"{name} {n:,}" for name, n in sorted(found.items()))
    yield Finding(
        "fact", "grades_of_candidates", f"grades of candidates: {words}", values=dict(found)
    )


def _leak(leak: Leak, *, used: bool) -> Finding:
    unused = "" if used else UNUSED
    chance = "below 1e-12" if leak.chance < 1e-12 else f"{leak.chance:.1e}"
    return Finding(
        "warning",
        "leak",
        SAID[leak.kind].format(separated=leak.separated, lists=leak.lists, chance=chance) + unused,
        values={"rule": leak.kind, "separated": leak.separated, "lists": leak.lists}
        | {"chance": leak.chance},
        harms=used,
    )


def _nearly_all_first(material: Material, ordered: bool) -> Iterator[Finding]:
    """A suspicion, of lists without scores that rule 2 of `leaks` does not convict.

    With one relevant document a query that rule needs hundreds of lists; here it is said from
    FEW_LISTS, and harms where ALL of MANY_LISTS or more are so: no ranker known does that.
    """
    flags = [
        tuple(doc_id in material.relevant[query_id] for doc_id in entry.doc_ids)
        for query_id, entry in (material.lists or {}).items()
        if entry.scores is None and query_id in material.relevant
    ]
    told = [entry for entry in flags if not all(entry)]
    found = sum(map(first, told))
    if len(told) < FEW_LISTS or found < NEARLY_ALL * len(told):
        return
    yield Finding(
        "warning",
        "relevant_nearly_all_first",
        f"all relevant documents stand first in {found:,} of {len(told):,} lists without scores: "
        "as the labels would order them, or the best rankers known; find out how the lists were "
        "made before their order counts" + ("" if ordered else UNUSED),
        values={"separated": found, "lists": len(told)},
        harms=ordered and found == len(told) >= MANY_LISTS,
    )


def _flat_first(material: Material) -> Iterator[Finding]:
    """A suspicion that needs no judgment, of lists without scores.

    Rankers of every kind have favourites, documents that stand near the top of many lists. Where
    the most frequent document of the first place is FLAT times rarer than that of every one of the
    next four, the first place was filled by other means.
    """
    lists = [e.doc_ids for e in (material.lists or {}).values() if e.scores is None]
    deep = [doc_ids for doc_ids in lists if len(doc_ids) > 5]
    if len(deep) < 30:
        return
    most = [max(Counter(doc_ids[place] for doc_ids in deep).values()) for place in range(5)]
    if most[0] * FLAT <= min(most[1:]):
        yield Finding(
            "warning",
            "first_place_stands_apart",
            f"no document stands first in more than {most[0]:,} of {len(deep):,} lists, but one "
            f"stands second in {most[1]:,}: the first place looks filled from labels; give the "
            "judgments to be sure",
            values={"most_frequent_by_place": most},
        )
