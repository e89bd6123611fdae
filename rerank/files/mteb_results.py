"""Files of mteb 2.x: result JSON, predictions JSON, and what stands beside them.

A result is `{dataset_revision, task_name, mteb_version, scores: {split: [row]}, ...}`, a row the
metrics of one subset; predictions are `{mteb_model_meta, subset: {split: {query: {document:
score}}}}`. mteb writes bare NaN where nAUC is undefined; here that is read as null, and only
strict JSON is written. Keys nobody knows are kept.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rerank.errors import ConfigError, InputError
from rerank.files.exchange import Scores
from rerank.files.file_kinds import read_json
from rerank.files.formats import checked_text
from rerank.records import ModelSpec

CUTOFFS = (1, 3, 5, 10, 20, 100, 1000)
# mteb's name of a metric -> the measure; mteb computes all but mrr with pytrec_eval
MEASURES = {
    "ndcg": "nDCG",
    "map": "AP",
    "recall": "R",
    "precision": "P",
    "mrr": "RR",
    "hit_rate": "Success",
}
MAIN_SCORE = "ndcg_at_10"
OWN_MODELS = "rerank-replay"  # organisation of a model that is no repository of the hub

# ISO 639-1 -> mteb's language and script
LANGUAGES = {
    "ar": "ara-Arab",
    "bn": "ben-Beng",
    "cs": "ces-Latn",
    "de": "deu-Latn",
    "en": "eng-Latn",
    "es": "spa-Latn",
    "fa": "fas-Arab",
    "fi": "fin-Latn",
    "fr": "fra-Latn",
    "hi": "hin-Deva",
    "id": "ind-Latn",
    "it": "ita-Latn",
    "ja": "jpn-Jpan",
    "ko": "kor-Hang",
    "nl": "nld-Latn",
    "pl": "pol-Latn",
    "pt": "por-Latn",
    "ru": "rus-Cyrl",
    "sv": "swe-Latn",
    "sw": "swa-Latn",
    "te": "tel-Telu",
    "th": "tha-Thai",
    "tr": "tur-Latn",
    "uk": "ukr-Cyrl",
    "vi": "vie-Latn",
    "yo": "yor-Latn",
    "zh": "zho-Hans",
}
_LANGUAGE_CODE = re.compile("[a-z]{3}-[A-Z][a-z]{3}")


def read_result(path: Path) -> dict[str, Any]:
    """An MTEB result file, its NaN and infinities as null; InputError names file and field."""
    result: dict[str, Any] = without_nan(read_json(path))
    checked_text(json.dumps(result, ensure_ascii=False), str(path))
    return checked_result(result, path)


def checked_result(result: dict[str, Any], path: Path) -> dict[str, Any]:
    """`result` if it is laid out as mteb writes it; InputError names file and field."""
    if not isinstance(result.get("task_name"), str):
        raise InputError(
            f"{path}, field 'task_name': is {result.get('task_name')!r:.40}, must be a text; name "
            "result files of mteb, TASK.json, not what stands beside them"
        )
    scores = result.get("scores")
    if not isinstance(scores, dict):
        raise InputError(
            f"{path}, field 'scores': must be an object of splits; results of mteb before 1.11 are "
            "not read, load them with mteb and save them again"
        )
    for split, rows in scores.items():
        if not isinstance(rows, list):
            raise InputError(f"{path}, field 'scores.{split}': must be a list, one row a subset")
        for number, row in enumerate(rows, 1):
            _check_row(row, f"{path}, field 'scores.{split}', row {number}")
    return result


def _check_row(row: Any, where: str) -> None:
    if not isinstance(row, dict):
        raise InputError(f"{where}: must be an object, is {row!r:.40}")
    if not isinstance(row.get("hf_subset"), str):
        raise InputError(f"{where}, field 'hf_subset': must be a text, as in 'default'")
    if "main_score" not in row:
        raise InputError(f"{where}, field 'main_score' is missing; write null where undefined")
    score = row["main_score"]
    if isinstance(score, bool) or not isinstance(score, int | float | None):
        raise InputError(f"{where}, field 'main_score': {score!r:.40} is not a number or null")


def result_rows(result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One flat object a (split, subset): where it is from, main_score, then the row's own keys."""
    for split, rows in result["scores"].items():
        for row in rows:
            yield {
                "task_name": result["task_name"],
                "split": split,
                "hf_subset": row["hf_subset"],
                "main_score": row["main_score"],
                "dataset_revision": result.get("dataset_revision"),
                "mteb_version": result.get("mteb_version"),
                **row,
            }


def strict_json(value: Any) -> bytes:
    """Indented JSON without NaN or Infinity (null instead), keys in the order given."""
    text = json.dumps(without_nan(value), indent=2, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode("utf-8")


def without_nan(value: Any) -> Any:
    """`value` with every float that JSON cannot write as None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_nan(item) for item in value]
    return value


def measure_of(key: str) -> str | None:
    """mteb's metric key as `metrics` names the measure (ndcg_at_10: nDCG@10); None for another."""
    name, at, cutoff = key.rpartition("_at_")
    if not at or name not in MEASURES or not cutoff.isascii() or not cutoff.isdigit():
        return None
    return f"{MEASURES[name]}@{int(cutoff)}" if int(cutoff) else None


def measure_names() -> list[str]:
    """The measures that a result row is made of, as `metrics` names them."""
    return [f"{measure}@{k}" for measure in MEASURES.values() for k in CUTOFFS]


def metric_scores(mean: Callable[[str], float]) -> dict[str, float | None]:
    """mteb's metric keys from the mean of each of `measure_names()`; null where undefined.

    The nauc_* keys are left out: mteb's loader does not need them.
    """
    found = {
        f"{name}_at_{k}": mean(f"{measure}@{k}")
        for name, measure in MEASURES.items()
        for k in CUTOFFS
    }
    found["accuracy"] = found["recall_at_1"]  # as mteb reports it
    found["main_score"] = found[MAIN_SCORE]
    return {name: value if math.isfinite(value) else None for name, value in found.items()}


def result_document(
    task: str, revision: str, split: str, rows: list[dict[str, Any]]
) -> dict[str, Any]:
    """A result as mteb writes it; null is what only a run of mteb itself could say."""
    return {
        "dataset_revision": revision,
        "task_name": task,
        "mteb_version": None,
        "scores": {split: rows},
        "evaluation_time": None,
        "kg_co2_emissions": None,
        "date": None,
        "evaluation_phases": None,
    }


def model_names(origins: Mapping[str, str]) -> dict[str, str]:
    """Model -> `organisation/model` as mteb asks for: the hub's id, or else the model's own name.

    `origins`: model -> where its weights came from (`LoadedWeights.origin`). Two models on one
    repository take their own names, since their results would share a file.
    """
    hub_ids = {
        model: origin.removeprefix("hub:")
        for model, origin in origins.items()
        if origin.startswith("hub:") and "/" in origin
    }
    uses = Counter(hub_ids.values())
    return {
        model: hub_ids[model] if uses[hub_ids.get(model, "")] == 1 else f"{OWN_MODELS}/{model}"
        for model in origins
    }


def model_folder(name: str, revision: str) -> str:
    """Where mteb's ResultCache looks for a model, below its `results` folder."""
    return f"{name.replace('/', '__').replace(' ', '_')}/{revision.replace(':', '-')}"


def model_meta(spec: ModelSpec, name: str, revision: str, *, weightless: bool) -> dict[str, Any]:
    """model_meta.json: mteb's ModelMeta with what the model's YAML states; the rest is null."""
    kind = "dense" if spec.adapter == "bi_encoder" else "cross-encoder"
    unknown = (
        "release_date languages n_parameters memory_usage_mb embed_dim license open_weights "
        "public_training_code public_training_data similarity_fn_name use_instructions "
        "training_datasets loader"
    )
    return {
        "name": name,
        "revision": revision.replace(":", "-"),
        **dict.fromkeys(unknown.split()),
        "max_tokens": spec.max_length,
        "framework": [],
        "modalities": ["text"],
        "model_type": [] if weightless else [kind],
    }


def language_codes(text: str, where: str) -> list[str]:
    """`ko, en` -> mteb's codes, which may stand there already; ConfigError for any other word."""
    words = [word for word in re.split("[,; ]+", text) if word]
    for word in words:
        if word not in LANGUAGES and not _LANGUAGE_CODE.fullmatch(word):
            raise ConfigError(
                f"{where}: language '{word}' is none of {', '.join(LANGUAGES)} and no code such as "
                "kor-Hang; correct `language` in its YAML"
            )
    if not words:
        raise ConfigError(
            f"{where}: mteb finds no score of a task without a language; add `language: ko` to its "
            "YAML, or --language ko to the command"
        )
    return [LANGUAGES.get(word, word) for word in words]


def predictions_document(
    name: str, revision: str, subset: str, split: str, scores: Scores
) -> dict[str, Any]:
    """Predictions as mteb writes them: for its `convert_to_reranking`, and `run_files` here."""
    return {
        "mteb_model_meta": {"model_name": name, "revision": revision.replace(":", "-")},
        subset: {split: scores},
    }
