"""The names that trec_eval gives to measures, for people who know them by heart."""

from __future__ import annotations

import re

from metrics.parameters import split_outside_brackets

_CUT = re.compile(r"(?P<name>[A-Za-z_]+?)[_.](?P<cutoff>[1-9][0-9]*)")


def from_trec_name(name: str) -> str:
    """`ndcg_cut_10` or `ndcg_cut.10` -> `nDCG@10`; a name that trec_eval does not have stays."""
    if name in WHOLE:
        return WHOLE[name]
    cut = _CUT.fullmatch(name)
    if cut and cut["name"] in CUT:
        return f"{CUT[cut['name']]}@{cut['cutoff']}"
    return name


def listed_names(word: str) -> list[str]:
    """`nDCG@10,P(rel=2)@5` -> two names; `ndcg_cut.10,20`, as trec_eval takes it, as well."""
    names: list[str] = []
    for part in split_outside_brackets(word):
        cut = _CUT.fullmatch(names[-1]) if names and part.isdigit() else None
        names.append(f"{cut['name']}_{part}" if cut else part)
    return names


WHOLE: dict[str, str] = {
    "map": "AP",
    "recip_rank": "RR",
    "ndcg": "nDCG",
    "Rprec": "Rprec",
    "bpref": "bpref",
    "infAP": "infAP",
    "set_recall": "R",
}
CUT: dict[str, str] = {
    "P": "P",
    "recall": "R",
    "map_cut": "AP",
    "ndcg_cut": "nDCG",
    "success": "Success",
    "unj": "unjudged",
}
