"""Do the systems of a comparison differ in what they were computed with? Then part of a difference
may be the number format's, the attention kernel's or the GPU's, and not the model's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rerank.suite.evaluation import SystemEvaluation

NO_ATTENTION = "none"  # of models without weights, which differ by nature


def machine_warnings(systems: Sequence[SystemEvaluation]) -> list[str]:
    """One sentence for each task and circumstance that is not the same for all systems with
    weights, and one for each run whose shards were scored on several kinds of GPU."""
    found = []
    for task in dict.fromkeys(system.task for system in systems):
        own = [s for s in systems if s.task == task and _attention(s) != NO_ATTENTION]
        kinds = {system.model: gpus(system) for system in own}
        found += [
            f"{model} on {task}: its shards were scored on {' and '.join(sorted(names))}; half "
            "precision differs in the last bits between kinds of GPU"
            for model, names in kinds.items()
            if len(names) > 1
        ]
        for what, values in (
            ("number formats", {s.model: {_identity(s, "dtype")} for s in own}),
            ("attention kernels", {s.model: {_attention(s)} for s in own}),
            ("kinds of GPU", kinds),
        ):
            found += _mixed(task, what, values)
    return found


def _mixed(task: str, what: str, values: dict[str, set[str]]) -> Iterable[str]:
    """values: model -> what it was computed with; models of which nothing is known are left out."""
    models: dict[str, list[str]] = {}
    for model, names in values.items():
        for name in names:
            models.setdefault(name, []).append(model)
    if len(models) > 1:
        parts = [f"{name} ({', '.join(users)})" for name, users in sorted(models.items())]
        yield (
            f"{task}: systems are compared across {what}: {'; '.join(parts)}; part of a difference "
            "may be theirs"
        )


def gpus(system: SystemEvaluation) -> set[str]:
    """The kinds of GPU that scored the run, as its receipts name them; empty on CPUs."""
    workers = [receipt.get("worker") for receipt in system.receipts]
    return {str(w["gpu"]) for w in workers if isinstance(w, dict) and w.get("gpu")}


def _identity(system: SystemEvaluation, key: str) -> str:
    return str(system.run.identity.get(key, ""))


def _attention(system: SystemEvaluation) -> str:
    return _identity(system, "attention") or NO_ATTENTION
