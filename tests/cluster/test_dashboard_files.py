"""The Grafana dashboard and the Prometheus configuration against what is really exported.

Oracles: the table of this project's metrics and the expressions of Ray's own dashboards.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import ray.dashboard.modules.metrics.dashboards as dashboards
import yaml
from ray._private.ray_constants import PROMETHEUS_SERVICE_DISCOVERY_FILE

from cluster.telemetry import COUNTERS, TAGS, TOKEN_BUDGET
from tests.conftest import ROOT

BOARD = json.loads((ROOT / "cluster" / "grafana" / "rerank.json").read_text())
VARIABLES = BOARD["templating"]["list"]
EXPRESSIONS = [target["expr"] for panel in BOARD["panels"] for target in panel.get("targets", [])]
QUERIES = [*EXPRESSIONS, *(v["query"]["query"] for v in VARIABLES if v["type"] == "query")]
# a counter NAME is exported as ray_NAME_total, a gauge as ray_NAME (Ray 2.60, measured)
TAGS_OF = {f"ray_{name}_total": {*TAGS, own} for name, (own, _) in COUNTERS.items()} | {
    f"ray_{TOKEN_BUDGET}": {*TAGS}
}
TAGS_OF_RAY = {"NodeAddress", "WorkerId"}  # on every series of a worker (measured)


def test_every_panel_asks_for_a_metric_that_exists() -> None:
    text = "".join(file.read_text() for file in Path(dashboards.__file__).parent.glob("*.py"))
    rays = set(re.findall(r"\bray_\w+", text))
    asked = {name for query in QUERIES for name in re.findall(r"\bray_\w+", query)}
    assert asked - TAGS_OF.keys() <= rays
    assert TAGS_OF.keys() <= asked  # and every metric of ours is drawn


def test_panels_group_by_tags_that_the_metric_has() -> None:
    for query in QUERIES:
        for labels in re.findall(r"by \(([^)]+)\)", query):
            names = {name.strip() for name in labels.split(",")}
            for metric in re.findall(r"\bray_rerank_\w+", query):
                assert names <= TAGS_OF[metric] | TAGS_OF_RAY, query


def test_counters_are_read_as_rates_or_increases() -> None:
    """The plain value of a counter falls to 0 with its worker."""
    for expression in EXPRESSIONS:
        for metric in re.findall(r"ray_rerank_\w+_total", expression):
            read = len(re.findall(rf"(?:rate|increase)\({metric}\{{[^}}]*\}}\[", expression))
            assert read == len(re.findall(metric, expression)), expression


def test_panels_follow_the_variables() -> None:
    assert [variable["name"] for variable in VARIABLES] == ["datasource", "model", "task"]
    targets = [target for panel in BOARD["panels"] for target in panel.get("targets", [])]
    assert {target["datasource"]["uid"] for target in targets} == {"${datasource}"}
    for expression in EXPRESSIONS:
        of_ours = len(re.findall("ray_rerank_", expression))
        assert len(re.findall(r'\{model=~"\$model",task=~"\$task"', expression)) == of_ours
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


def test_prometheus_reads_the_file_that_ray_writes() -> None:
    config = yaml.safe_load((ROOT / "cluster" / "prometheus" / "prometheus.yaml").read_text())
    (job,) = config["scrape_configs"]
    assert job["file_sd_configs"][0]["files"] == [f"/tmp/ray/{PROMETHEUS_SERVICE_DISCOVERY_FILE}"]
