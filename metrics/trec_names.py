"""The names that trec_eval gives to measures, for people who know them by heart."""

from __future__ import annotations

import re

_CUT = re.compile(r"(?P<name>[A-Za-z_]+?)[_.](?P<cutoff>[1-9][0-9]*)")


def from_trec_name(name: str) -> str:
    """`ndcg_cut_10` or `ndcg_cut.10` -> `nDCG@10`; a name that trec_eval does not have stays."""
    if name in WHOLE:
        return WHOLE[name]
    cut = _CUT.fullmatch(name)
    if cut and cut["name"] in CUT:
        return f"{CUT[cut['name']]}@{cut['cutoff']}"
    return name


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
