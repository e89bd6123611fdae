"""The look of report.html: calm, light and dark, wide and narrow, on screen and on paper.

Better is blue and worse is vermilion, which colour-blind readers tell apart; a mark, a sign or a
word always says the same.
"""

from __future__ import annotations

from rerank.reporting.markup import Markup

STYLESHEET = Markup(
    """
:root {
  color-scheme: light dark;
  --paper: #fbfaf7; --card: #ffffff; --ink: #1d2126; --soft: #5c646d; --faint: #767e87;
  --line: #e2dfd8; --grid: #ecebe5; --tint: #f3f1eb; --accent: #1f5f99;
  --better: #1f5f99; --worse: #b23c17; --dot: #33404d; --room: #d9e2ea;
  --better-tint: #e9f1f8; --worse-tint: #fbece6; --notice-tint: #f7efd5; --notice: #6d5407;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171a; --card: #1b1f23; --ink: #e5e7e9; --soft: #a6aeb6; --faint: #8a939c;
    --line: #30363c; --grid: #282d32; --tint: #20252a; --accent: #86b9ea;
    --better: #7fb6ec; --worse: #f0906a; --dot: #cfd6dd; --room: #2c3a47;
    --better-tint: #1b2b3a; --worse-tint: #3a231a; --notice-tint: #372f14; --notice: #e8cf7c;
  }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; max-width: 1320px; padding: 0 1.5rem 3rem; background: var(--paper);
  color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans",
    "Apple SD Gothic Neo", "Malgun Gothic", "Noto Sans KR", "Noto Sans CJK KR", sans-serif;
  overflow-wrap: anywhere;
}
:lang(ko) { word-break: keep-all; overflow-wrap: anywhere; }
bdi { unicode-bidi: isolate; }
header { padding: 2.75rem 0 1.5rem; border-bottom: 1px solid var(--line); }
h1 { font-size: 2.1rem; line-height: 1.2; letter-spacing: -0.015em; margin: 0.15rem 0 0.5rem; }
h2 { font-size: 1.4rem; line-height: 1.3; letter-spacing: -0.01em; margin: 0 0 0.75rem; }
h3 { font-size: 1.08rem; line-height: 1.4; margin: 1.75rem 0 0.4rem; }
h4 { font-size: 0.95rem; margin: 1.5rem 0 0.4rem; }
p, ul { margin: 0.4rem 0; max-width: 78ch; }
ul { padding-left: 1.2rem; }
.brand { color: var(--accent); font-weight: 600; font-size: 0.88rem; margin: 0; }
.lede { font-size: 1.08rem; }
.scope, .fine, figcaption { color: var(--soft); }
.fine, figcaption { font-size: 0.86rem; }
.columns { display: grid; grid-template-columns: minmax(0, 1fr); }
nav ol {
  list-style: none; margin: 0; padding: 0.75rem 0; display: flex; flex-wrap: wrap;
  gap: 0.2rem 1.1rem;
}
nav a { color: var(--soft); text-decoration: none; font-size: 0.92rem; }
nav a:hover, nav a:focus-visible { color: var(--accent); text-decoration: underline; }
section { padding: 2rem 0 0.5rem; scroll-margin-top: 0.5rem; }
section + section { border-top: 1px solid var(--line); margin-top: 1.75rem; }
.card {
  background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 1rem 1.25rem 1.1rem; margin: 1.1rem 0;
}
.card > h3:first-child { margin-top: 0; }
.headline { font-size: 1.03rem; }

.gate {
  display: flex; gap: 0.9rem; border: 1px solid var(--line); border-left: 5px solid var(--faint);
  border-radius: 8px; background: var(--card); padding: 0.8rem 1.1rem; margin: 0 0 1.25rem;
}
.gate > div { min-width: 0; flex: 1; }
.gate .mark { font-size: 1.25rem; line-height: 1.5; color: var(--soft); font-weight: 700; }
.gate .headline { font-weight: 650; margin: 0.1rem 0; }
.gate.pass { border-left-color: var(--better); } .gate.pass .mark { color: var(--better); }
.gate.fail { border-left-color: var(--worse); background: var(--worse-tint); }
.gate.fail .mark { color: var(--worse); }

.chip {
  display: inline-block; font-size: 0.76rem; line-height: 1.35; padding: 0.05rem 0.45rem;
  border-radius: 99px; background: var(--tint); color: var(--soft); border: 1px solid var(--line);
  white-space: nowrap; font-weight: 500;
}
.chip.notice {
  background: var(--notice-tint); color: var(--notice); border-color: transparent;
  font-weight: 600;
}
.warnings { list-style: none; padding: 0; }
.warnings li {
  border-left: 3px solid var(--notice); background: var(--notice-tint); color: var(--ink);
  padding: 0.25rem 0.7rem; margin: 0.35rem 0; border-radius: 0 5px 5px 0; font-size: 0.92rem;
}

.scroll { overflow-x: auto; margin: 0.7rem 0; }
.compact { max-width: 34rem; }
.scroll:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
table {
  border-collapse: collapse; width: 100%; font-size: 0.91rem;
  font-variant-numeric: tabular-nums lining-nums;
}
th, td {
  text-align: left; vertical-align: middle; padding: 0.38rem 0.5rem;
  border-bottom: 1px solid var(--line); overflow-wrap: normal;
}
th:first-child, td:first-child { padding-left: 0.35rem; }
thead th {
  color: var(--soft); font-weight: 550; font-size: 0.82rem; vertical-align: bottom;
  line-height: 1.3; border-bottom-color: var(--faint);
}
tbody th { font-weight: 500; }
tbody tr:hover > * { background: var(--tint); }
.number { text-align: right; }
td.number, td.number small { white-space: nowrap; }
td.number small { display: block; color: var(--soft); font-size: 0.8rem; line-height: 1.3; }
th small, td small { display: block; color: var(--soft); font-weight: 400; }
.prose { min-width: 16rem; max-width: 46rem; overflow-wrap: anywhere; }
tbody .prose { font-weight: 400; }
td.code { min-width: 7.5rem; }
tbody th.text { min-width: 10rem; } td.text { white-space: nowrap; }
.picture { min-width: 9.5rem; width: 26%; padding-top: 0; padding-bottom: 0; }
code {
  font: 0.86em ui-monospace, "SF Mono", Menlo, Consolas, "Noto Sans Mono", monospace;
  overflow-wrap: anywhere;
}
tr.baseline > * { background: var(--tint); }
tr.small > *, tr.small small { color: var(--faint); }
tr.small svg { opacity: 0.45; }
.muted, .uncorrected, .undecided, .equal, .unknown { color: var(--soft); }
p.uncorrected, p.undecided, p.equal, p.unknown, p.better, p.worse { color: var(--ink); }
td.better { color: var(--better); } td.worse { color: var(--worse); }
td.better small, td.worse small { color: inherit; }

svg.chart { display: block; overflow: visible; }
svg text {
  fill: var(--soft); font-size: 11px; font-weight: 400; font-variant-numeric: tabular-nums;
}
.grid { stroke: var(--grid); } .zero { stroke: var(--faint); }
.reference { stroke: var(--faint); stroke-dasharray: 3 3; }
.oracle { stroke: var(--faint); }
.range { stroke: var(--dot); stroke-width: 2; }
.dot { fill: var(--dot); }
.beyond { fill: var(--dot); }
.hollow { fill: var(--card); stroke: var(--dot); stroke-width: 1.5; }
.better .range { stroke: var(--better); } .better .dot, .better .beyond { fill: var(--better); }
.worse .range { stroke: var(--worse); } .worse .dot, .worse .beyond { fill: var(--worse); }
.room { stroke: var(--room); stroke-width: 10; }
.filled { stroke: var(--accent); stroke-width: 10; }
rect.better { fill: var(--better); }
rect.worse { fill: var(--worse); }
rect.tied { fill: var(--faint); }
.track { fill: var(--room); } .bar { fill: var(--accent); }
figure { margin: 1rem 0; }

details { margin: 0.7rem 0; }
summary { cursor: pointer; color: var(--accent); font-size: 0.92rem; width: fit-content; }
summary:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
dl {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr));
  gap: 0 2rem; margin: 0.6rem 0; font-size: 0.91rem;
}
dl > div {
  display: grid; grid-template-columns: 9.5rem minmax(0, 1fr); gap: 0.75rem; padding: 0.3rem 0;
  border-bottom: 1px solid var(--line);
}
dt { color: var(--soft); } dd { margin: 0; font-variant-numeric: tabular-nums; }
footer {
  margin-top: 2.5rem; border-top: 1px solid var(--line); color: var(--soft); font-size: 0.86rem;
}

@media (min-width: 1080px) {
  .columns { grid-template-columns: 10.5rem minmax(0, 1fr); gap: 2.25rem; }
  nav { position: sticky; top: 0; align-self: start; padding-top: 1.6rem; }
  nav ol { flex-direction: column; gap: 0.4rem; }
}
@media (max-width: 640px) {
  body { padding: 0 0.9rem 2rem; }
  header { padding-top: 1.5rem; } h1 { font-size: 1.6rem; }
  .card { padding: 0.8rem 0.85rem; }
  .scroll { margin-right: -0.85rem; }
  tbody th.text { min-width: 8rem; }
  .picture { min-width: 8.5rem; }
  dl > div { grid-template-columns: 8rem minmax(0, 1fr); }
}
@media print {
  :root {
    color-scheme: light; --paper: #fff; --card: #fff; --ink: #111; --soft: #444; --faint: #666;
    --line: #ccc; --grid: #e6e6e6; --tint: #f5f5f5; --accent: #1f5f99; --better: #1f5f99;
    --worse: #b23c17; --dot: #333; --room: #d9e2ea; --worse-tint: #fff; --notice-tint: #fff;
    --notice: #6d5407;
  }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav { display: none; } .columns { display: block; }
  details::details-content { content-visibility: visible; block-size: auto; }
  .scroll { overflow: visible; }
  table { font-size: 8pt; }
  .picture { min-width: 7rem; }
  .prose { min-width: 9rem; }
  th, td { padding: 0.2rem 0.35rem; }
  td.number small, td small, th small { font-size: 7pt; }
  h2, h3, h4, summary { break-after: avoid; } tr, figure, .gate { break-inside: avoid; }
}
"""
)
