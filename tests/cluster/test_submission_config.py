"""What a cluster's file may say, what travels with a job, and how work is told apart.

Oracle: values written by hand; the run's own identity, as a replay on this machine computes it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from cluster.shipping import PACKAGES, check_size, fill_package
from jobs.config import load_cluster, load_model, load_suite
from jobs.freeze import freeze_tasks, frozen_tasks
from jobs.job_files import job_command, job_texts
from jobs.replay import runs_of
from jobs.submissions import (
    Asked,
    asked_of,
    check_placements,
    check_store,
    stored_state,
    submission_suite,
)
from rerank.errors import ConfigError
from rerank.store import Store
from tests.conftest import ROOT
from tests.jobs.small_suite import replayed_suite, write_suite

REMOTE = {"dashboard": "http://10.0.0.1:8265"}
COMMIT = "a" * 40


def write(folder: Path, name: str, **values: object) -> None:
    file = folder / f"configs/{name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(values))


def asked_suite(words: list[str]) -> argparse.Namespace:
    return argparse.Namespace(verb="submit", suite=words[0], overrides=words[1:])


def asked_of_words(words: list[str]) -> dict[str, Asked]:
    suite, store, _ = submission_suite(asked_suite(words))
    found = asked_of(suite, store, frozen_tasks(suite, store))
    return {one.model.name: one for one in found}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"dashbord": "http://h:1"}, "Did you mean 'dashboard'"),
        ({"dashboard": "h:8265"}, "must be a URL such as http://127.0.0.1:8265"),
        ({"dashboard": "ftp://h:1"}, "must be a URL"),
        ({"dashboard": "http://h:port"}, "must be a URL"),
        ({"dashboard": "http://me:secret@h:1"}, "a token comes from RAY_AUTH_TOKEN_PATH"),
        ({"code": "workingdir"}, "Did you mean 'working_dir'"),
        ({"device": "gpu"}, "unknown device in .*c.yaml"),
        ({"dtype": "bf16"}, "unknown dtype"),
        ({"attention": "flash_attention"}, "Did you mean 'flash_attention_2'"),
        ({"max_concurrent": 0}, "max_concurrent must be at least 1"),
        ({"workers": 0}, "workers must be at least 1"),
        ({"gpus": -1}, "gpus is from 0"),
        ({"price_per_hour": -0.5}, "price_per_hour is from 0"),
        ({"python": " "}, "python must name an interpreter"),
        ({"env": ["HF_TOKEN", "KEY=hidden"]}, "entry 2 of env is no name of a variable"),
        ({"env": "HF_TOKEN"}, "env: must be a list"),
        ({"local": True, "dashboard": "http://10.0.0.1:8265"}, "leave local out"),
    ],
)
def test_a_wrong_cluster_file_is_one_sentence(
    values: dict[str, object], words: str, tmp_path: Path
) -> None:
    """File, key, and the nearest spelling; a value that may be a secret is not repeated."""
    write(tmp_path, "clusters/c", **values)
    with pytest.raises(ConfigError, match=words) as caught:
        load_cluster(tmp_path / "configs", "c")
    assert "hidden" not in str(caught.value)
    assert "secret@" not in str(caught.value)


def test_files_of_the_project_and_addresses_are_clusters() -> None:
    """A URL is a dashboard, other addresses are Ray's own."""
    files = sorted((ROOT / "configs/clusters").glob("*.yaml"))
    found = {file.stem: load_cluster(ROOT / "configs", file.stem) for file in files}
    assert {"example", "local"} <= set(found)
    assert found["local"].local
    assert found["example"].env == ("HF_TOKEN",)
    assert load_cluster(ROOT / "configs", "https://h:1").dashboard == "https://h:1"
    for address in ("auto", "10.0.0.1:6379", "ray://10.0.0.1:10001"):
        spec = load_cluster(ROOT / "configs", address)
        assert (spec.address, spec.dashboard) == (address, "")


@pytest.mark.parametrize(
    ("store", "values", "words"),
    [
        ("store", REMOTE, "cannot see the store store of this machine"),
        ("/mnt/store", REMOTE, "use a URL"),
        ("memory://store", REMOTE, "cannot see the store"),
        ("memory://store", {**REMOTE, "shared_store": True}, "cannot see the store"),
        ("s3://KEY:hidden@bucket/x", REMOTE, "the store's URL holds credentials"),
        ("s3://bucket/x?secret_key=hidden", REMOTE, "the store's URL holds credentials"),
        ("s3://bucket/x", REMOTE, ""),
        ("s3://bucket/x?endpoint_override=http://h:9000", REMOTE, ""),
        ("/mnt/store", {**REMOTE, "shared_store": True}, ""),
        ("store", {"dashboard": "http://127.0.0.1:8265", "local": True}, ""),
    ],
)
def test_the_nodes_must_see_the_store(
    store: str, values: dict[str, object], words: str, tmp_path: Path
) -> None:
    """A folder of this machine is refused unless the file says that it is shared; so are keys."""
    suite_file, _ = write_suite(tmp_path)
    write(tmp_path, "clusters/c", **values)
    suite = load_suite(suite_file, [f"store={store}", "cluster=c"])
    cluster = load_cluster(suite.root, "c")
    if not words:
        check_store(suite, cluster)
        return
    with pytest.raises(ConfigError, match=words) as caught:
        check_store(suite, cluster)
    assert "hidden" not in str(caught.value)


def test_a_chosen_model_needs_neither_baseline_nor_gate(tmp_path: Path) -> None:
    """`models=[overlap]` of a suite whose baseline and gate are about first_stage."""
    words = write_suite(tmp_path)
    write(tmp_path, "suites/s", tasks=["tiny"], models=["first_stage", "overlap"], gate=[{}])
    write(tmp_path, "clusters/c", **REMOTE)
    suite, _, cluster = submission_suite(asked_suite([*words, "models=[overlap]", "cluster=c"]))
    assert [model.name for model in suite.models] == ["overlap"]
    assert cluster.dashboard == REMOTE["dashboard"]
    with pytest.raises(ConfigError, match="rerank submit needs a cluster"):
        submission_suite(asked_suite(words))
    with pytest.raises(ConfigError, match="has no dashboard to submit to"):
        submission_suite(asked_suite([*words, "cluster=10.0.0.1:6379"]))


def test_what_auto_comes_to_on_the_nodes_is_stated(tmp_path: Path) -> None:
    """Without it a far cluster's runs have no identity here; a model's own words stay."""
    words = write_suite(tmp_path)
    hub = {"adapter": "pair_encoder", "weights_from": "hub", "weights": "o/m", "revision": COMMIT}
    write(tmp_path, "models/plain", **hub)
    write(tmp_path, "models/exact", **hub, dtype="float32")
    write(tmp_path, "models/cpu", **hub, num_gpus=0)
    write(tmp_path, "suites/s", tasks=["tiny"], models=["plain", "exact", "cpu"], baseline="cpu")
    write(tmp_path, "clusters/c", **REMOTE)
    suite, _, cluster = submission_suite(asked_suite([*words, "cluster=c"]))
    with pytest.raises(ConfigError, match="attention, device, dtype of plain, exact, cpu"):
        check_placements(suite, cluster)
    placement = {"device": "cuda", "dtype": "bfloat16", "attention": "flash_attention_2"}
    write(tmp_path, "clusters/c", **REMOTE, **placement)
    suite, _, cluster = submission_suite(asked_suite([*words, "cluster=c"]))
    placed = {one.name: (one.device, one.dtype, one.attention) for one in suite.models}
    assert placed == {
        "plain": ("cuda", "bfloat16", "flash_attention_2"),
        "exact": ("cuda", "float32", "sdpa"),
        "cpu": ("auto", "bfloat16", "flash_attention_2"),
    }


def test_the_same_work_has_the_same_id_and_other_work_another(tmp_path: Path) -> None:
    """Model, recipe, tasks and store tell work apart; machines and workers do not."""
    words = [*write_suite(tmp_path), "cluster=c"]
    write(tmp_path, "clusters/c", **REMOTE)
    replayed_suite(tmp_path)
    replayed_suite(tmp_path / "copy")
    asked = asked_of_words(words)
    assert asked["overlap"].fingerprint != asked["first_stage"].fingerprint
    same = asked_of_words([*words, "workers=3", "models=[overlap]"])
    assert same["overlap"].family == asked["overlap"].family
    write(tmp_path / "copy", "clusters/c", **REMOTE)
    elsewhere = asked_of_words(
        [words[0], f"store={tmp_path}/copy/store", "cluster=c", "models=[overlap]"]
    )
    assert elsewhere["overlap"].runs[0].fingerprint == asked["overlap"].runs[0].fingerprint
    assert elsewhere["overlap"].family != asked["overlap"].family
    write(tmp_path, "models/가", adapter="overlap")
    write(tmp_path, "models/나", adapter="overlap")
    twins = asked_of_words([*words, "models=[가, 나]"])
    assert twins["가"].family != twins["나"].family


def test_the_runs_that_are_asked_for_are_those_of_a_replay(tmp_path: Path) -> None:
    """So that what a job writes is what this machine looks for; and its state from the store."""
    words = replayed_suite(tmp_path)
    write(tmp_path, "clusters/c", **REMOTE)
    overlap = asked_of_words([*words, "cluster=c"])["overlap"]
    suite = load_suite(words[0], words[1:])
    store = Store(suite.spec.store)
    (run,) = runs_of(store, frozen_tasks(suite, store), suite.models[1])
    assert [one.fingerprint for one in overlap.runs] == [run.fingerprint]
    assert stored_state(overlap, 0) == "complete"
    store.remove(f"{run.key}/receipts/00000.json")
    assert stored_state(overlap, 0) == "incomplete"
    failure = {"kind": "poisoned", "message": "its process died 8 times"}
    store.write_json(f"{run.key}/failures/00000.json", failure)
    assert stored_state(overlap, 0) == "given up"
    assert stored_state(overlap, 0, retry_failed=True) == "incomplete"


def test_weights_that_only_the_nodes_have_are_found_in_the_store_by_the_rest(
    tmp_path: Path,
) -> None:
    """Same task, recipe and placement: then it is the run, whatever its weights are called."""
    words = [*write_suite(tmp_path), "cluster=c"]
    replayed_suite(tmp_path)
    write(tmp_path, "clusters/c", dashboard="http://127.0.0.1:8265", local=True)
    away = {"adapter": "pair_encoder", "weights": "/on/the/nodes/alone", "device": "cpu"}
    write(tmp_path, "models/m", **away, dtype="float32", attention="sdpa")
    words += ["models=[m]"]
    first = asked_of_words(words)["m"]
    assert not first.known
    identity = {**first.runs[0].identity, "weights": "sha256:as the node found it"}
    task = first.runs[0].task
    record = {"identity": identity, "task_fingerprint": task.fingerprint}
    task.store.write_json("runs/tiny/m/fedcba9876543210/run.json", record)
    other = {**record, "identity": {**identity, "max_length": 7}}
    task.store.write_json("runs/tiny/m/0123456789abcdef/run.json", other)
    again = asked_of_words(words)["m"]
    assert again.runs[0].identity == identity
    assert again.family == first.family


def test_a_job_gets_what_was_asked_for_as_files(tmp_path: Path) -> None:
    """Overrides applied, one model, placement and revision stated; variables left for the nodes."""
    words = [*write_suite(tmp_path), "cluster=c", "token_budget=77"]
    replayed_suite(tmp_path)
    placement = {"device": "cuda", "dtype": "bfloat16", "attention": "sdpa"}
    cluster = {**REMOTE, **placement, "env": ["HF_TOKEN"], "python": "'/opt/my env/py' -s"}
    write(tmp_path, "clusters/c", **{**cluster, "shared_store": True})
    (tmp_path / "configs/models/m.yaml").write_text(
        "adapter: pair_encoder\nweights_from: hub\nweights: ${oc.env:OWNER,o}/m\n"
        f"revision: {COMMIT}\nmax_length: 64\n"
    )
    suite, store, spec = submission_suite(asked_suite([*words, "models=[m]"]))
    (asked,) = asked_of(suite, store, frozen_tasks(suite, store))
    texts = job_texts(suite, asked)
    folder = fill_package(tmp_path / "package", texts, with_code=False)
    assert not (folder / "rerank").exists()
    shipped = load_suite(folder / "configs/suites/s.yaml", ["cluster=auto"])
    assert shipped.spec.token_budget == 77
    assert shipped.spec.store == f"{tmp_path}/store"
    assert [model.name for model in shipped.models] == ["m"]
    assert shipped.models[0] == asked.model
    assert [
        run.fingerprint for run in runs_of(store, frozen_tasks(shipped, store), asked.model)
    ] == [run.fingerprint for run in asked.runs]
    assert json.loads(texts["configs/models/m.yaml"])["weights"] == "${oc.env:OWNER,o}/m"
    assert job_command(suite, "m", spec, 3, retry_failed=True) == (
        ': "${HF_TOKEN:?is not set on the nodes of this cluster}" && '
        "'/opt/my env/py' -s -m jobs replay configs/suites/s.yaml 'models=[\"m\"]' "
        "cluster=auto workers=3 --retry-failed"
    )


def test_tasks_that_a_suite_varies_travel_as_they_are(tmp_path: Path) -> None:
    """What the suite sets for its tasks is in their files, and is not applied to them twice."""
    varied = ["task_overrides={depth: 7}", "variant=deep"]
    words = [*write_suite(tmp_path), *varied, "cluster=c", "models=[overlap]"]
    write(tmp_path, "clusters/c", **REMOTE, device="cpu", dtype="float32", attention="sdpa")
    suite, store, _ = submission_suite(asked_suite(words))
    (asked,) = asked_of(suite, store, freeze_tasks(suite, store))
    folder = fill_package(tmp_path / "package", job_texts(suite, asked), with_code=False)
    shipped = load_suite(folder / "configs/suites/s.yaml", ["cluster=auto"])
    assert [(task.name, task.depth) for task in shipped.tasks] == [("tiny.deep", 7)]
    assert shipped.tasks == suite.tasks


def test_code_travels_without_data(tmp_path: Path) -> None:
    """The four packages as they are here; caches, hidden files and tables stay."""
    folder = fill_package(tmp_path / "package", {"a.txt": "x"}, with_code=True)
    assert sorted(path.name for path in folder.iterdir()) == sorted([*PACKAGES, "a.txt"])
    assert (folder / "rerank/runs.py").read_bytes() == (ROOT / "rerank/runs.py").read_bytes()
    names = {path.name for path in folder.rglob("*")}
    assert not [n for n in names if n == "__pycache__" or n.endswith(".parquet")]


def test_too_much_code_is_refused_with_the_biggest_files(tmp_path: Path) -> None:
    """Above the limit by one byte, three files named, the biggest first."""
    for number, size in enumerate((100, 400, 300, 200)):
        (tmp_path / f"f{number}").write_bytes(bytes(size))
    check_size(tmp_path, 1000)
    with pytest.raises(ConfigError, match=r"f1 .* f2 .* f3 .*code: image"):
        check_size(tmp_path, 999)


@pytest.mark.parametrize("key", ["memory_gib", "parameters"])
def test_sizes_of_a_model_are_above_zero_and_identify_nothing(key: str, tmp_path: Path) -> None:
    """They say where it runs and when, not what it scores."""
    words = replayed_suite(tmp_path)
    suite = load_suite(words[0], words[1:])
    store = Store(suite.spec.store)
    tasks = frozen_tasks(suite, store)
    (before,) = runs_of(store, tasks, suite.models[1])
    write(tmp_path, "models/overlap", adapter="overlap", accelerator="L4", **{key: 2.5})
    model = load_model(suite.root, "overlap")
    assert (getattr(model, key), model.accelerator) == (2.5, "L4")
    assert [run.fingerprint for run in runs_of(store, tasks, model)] == [before.fingerprint]
    write(tmp_path, "models/overlap", adapter="overlap", **{key: 0})
    with pytest.raises(ConfigError, match="memory_gib and parameters above 0"):
        load_model(suite.root, "overlap")
