"""What the release gate says: one sentence, the broken rules, and all rules as a table."""

from __future__ import annotations

from rerank.reporting.markup import Markup, bullets, details, element, paragraph
from rerank.reporting.schema import Report, RuleVerdict
from rerank.reporting.table import Cell, Column, Table, html_table, row
from rerank.reporting.wording import count, number, p_text, signed


def gate_sentence(report: Report) -> str:
    """One sentence on the release gate, with the rules that could not be judged."""
    gate, rules = report["gate"], report["gate"]["rules"]
    if not rules:
        return "No release gate: this suite states no rules."
    if gate["passed"] is None:
        return f"Release gate not judged: {count(len(rules), 'rule')}, about no system of this run."
    failed = sum(rule["verdict"] == "fail" for rule in rules)
    open_ = sum(rule["verdict"] not in ("pass", "fail") for rule in rules)
    unjudged = f" {count(open_, 'rule')} not judged." if open_ else ""
    if gate["passed"]:
        return (
            f"Release gate passed: {len(rules) - open_} of {count(len(rules), 'rule')}.{unjudged}"
        )
    return f"Release gate failed: {failed} of {count(len(rules), 'rule')} broken.{unjudged}"


def failed_sentences(report: Report) -> list[str]:
    return [rule["sentence"] for rule in report["gate"]["rules"] if rule["verdict"] == "fail"]


def gate_html(report: Report) -> Markup:
    passed = report["gate"]["passed"]
    tone, mark = {True: ("pass", "✓"), False: ("fail", "✕"), None: ("open", "–")}[passed]
    rules = report["gate"]["rules"]
    table = details(f"All {count(len(rules), 'rule')}", html_table(gate_table(report)))
    return element(
        "div",
        element("span", mark, class_="mark", aria_hidden="true"),
        element(
            "div",
            paragraph(gate_sentence(report), class_="headline"),
            bullets(failed_sentences(report)),
            table if rules else None,
        ),
        class_=f"gate {tone}",
    )


def gate_table(report: Report) -> Table:
    columns = (
        Column("Challenger"),
        Column("Task"),
        Column("Rule"),
        Column("Measure"),
        Column("Slice"),
        Column("Limit", "number"),
        Column("Observed", "number"),
        Column("n", "number"),
        Column("Verdict"),
    )
    rows = [
        row(
            rule["challenger"],
            rule["task"],
            rule.get("rule", "max_drop"),
            rule["measure"],
            rule["slice"] or "whole task",
            number(rule["limit"]),
            _observed(rule),
            count(rule["n"]),
            Cell(
                rule["verdict"], strong=rule["verdict"] == "fail", tone=_rule_tone(rule["verdict"])
            ),
        )
        for rule in report["gate"]["rules"]
    ]
    return Table(columns, rows)


def _observed(rule: RuleVerdict) -> str:
    """A delta with its sign, a p-value as one, everything else as a number."""
    kind = rule.get("rule", "max_drop")
    if kind == "superior":
        return p_text(rule["observed"])
    return (signed if kind == "max_drop" else number)(rule["observed"])


def _rule_tone(verdict: str) -> str:
    return {"pass": "better", "fail": "worse"}.get(verdict, "muted")
