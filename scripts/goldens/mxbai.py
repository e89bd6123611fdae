"""mxbai-rerank's own library: mxbai-rerank-base-v2 and -large-v2."""

from __future__ import annotations

import torch
from mxbai_rerank import MxbaiRerankV2

from scripts.goldens.record import Fed, arguments, describe, take, write

MAX_LENGTH = 256

if __name__ == "__main__":
    given = arguments()
    folder = given.standins / "qwen2"
    model = MxbaiRerankV2(
        str(folder), device="cpu", torch_dtype=torch.float32, max_length=MAX_LENGTH
    )
    fed = Fed(model.model)
    rows = take(fed, lambda query, document: model.predict([query], [document]).item())
    settings = {
        "reference": "mxbai_rerank.MxbaiRerankV2.predict",
        "max_length": MAX_LENGTH,
        "device": "cpu",
        "torch_dtype": "float32",
    }
    write(given.out / "mxbai.json", describe("qwen2", folder), settings, rows, ["mxbai-rerank"])
