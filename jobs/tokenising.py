"""Where a suite's corpora are tokenised: on this machine, or on the cluster that it names."""

from __future__ import annotations

from jobs.config import Suite, load_cluster
from rerank.first_stage.token_blocks import Tokenise, tokenise_here, tokenise_in_processes


def tokenise_of(suite: Suite) -> Tokenise | None:
    """None leaves the choice to the corpus's size: this process, or one a processor."""
    spec = suite.spec
    if spec.cluster and spec.engine != "inline":
        from cluster.tokenising import tokenise_on_ray

        cluster = load_cluster(suite.root, spec.cluster)
        return tokenise_on_ray(cluster.address, spec.num_cpus)
    if spec.workers is None:
        return None
    return tokenise_in_processes(spec.workers) if spec.workers > 1 else tokenise_here
