"""The look of the app's own tables and figures: the report's light colours, inside `.rr` alone."""

from __future__ import annotations

from rerank.reporting.markup import Markup

STYLE = Markup(
    """<style>
.rr, .stApp {
  --card: #ffffff; --ink: #1d2126; --soft: #5c646d; --faint: #767e87; --line: #e2dfd8;
  --tint: #f3f1eb; --accent: #1f5f99; --better: #1f5f99; --worse: #b23c17;
  --notice-tint: #f7efd5; --notice: #6d5407;
  --g3: #cfe3d2; --g2: #dcebdd; --g1: #eaf3ea; --g0: #f3e4de; --s0: #1f5f99; --s1: #b2701a;
  --s2: #3d7a4a; --s3: #8a4a8f; --s4: #555d66; --s5: #a8323e;
}
.stMainBlockContainer { padding: 1.6rem 2rem 4rem; max-width: 1500px; }
.stAppHeader { display: none; }
.rr { color: var(--ink); font-size: 0.95rem; overflow-wrap: anywhere; }
.rr:lang(ko), .rr :lang(ko) { word-break: keep-all; }
.rr h1 { font-size: 1.55rem; line-height: 1.25; margin: 0; padding: 0; font-weight: 650; }
.rr h3 { font-size: 1.12rem; line-height: 1.35; margin: 0.9rem 0 0; padding: 0; font-weight: 600; }
.rr h4 { font-size: 0.98rem; margin: 0 0 0.5rem; padding: 0; }
.rr p { margin: 0.25rem 0; }
.rr .brand { color: var(--accent); font-weight: 600; font-size: 0.86rem; }
.rr .fine { color: var(--soft); font-size: 0.86rem; max-width: 130ch; margin: 0.15rem 0; }
.rr bdi { unicode-bidi: isolate; }
.rr code {
  font: 0.86em ui-monospace, Menlo, Consolas, monospace; background: none; color: inherit;
  padding: 0; overflow-wrap: anywhere;
}
.rr .scroll { overflow-x: auto; }
.rr table {
  border-collapse: collapse; width: 100%; font-size: 0.9rem; margin: 0;
  font-variant-numeric: tabular-nums lining-nums;
}
.rr th, .rr td {
  text-align: left; vertical-align: middle; padding: 0.3rem 0.5rem; border: 0;
  border-bottom: 1px solid var(--line); color: inherit;
}
.rr thead th { color: var(--soft); font-weight: 550; font-size: 0.82rem; vertical-align: bottom; }
.rr tbody th { font-weight: 500; min-width: 8rem; }
.rr tbody tr:hover > * { background: var(--tint); }
.rr td.number, .rr th.number { text-align: right; white-space: nowrap; }
.rr td.text { white-space: nowrap; }
.rr .prose { min-width: 15rem; } .rr td.code { min-width: 8rem; }
.rr td, .rr th { overflow-wrap: normal; }
.rr thead th, .rr td.code { white-space: nowrap; } .rr td.prose { overflow-wrap: anywhere; }
.rr .picture { min-width: 13rem; width: 30%; padding-top: 0; padding-bottom: 0; }
.rr .muted, .rr .uncorrected, .rr .undecided, .rr .equal, .rr .unknown { color: var(--soft); }
.rr .better { color: var(--better); } .rr .worse { color: var(--worse); }
.rr .chip {
  display: inline-block; font-size: 0.74rem; line-height: 1.35; padding: 0.05rem 0.45rem;
  border-radius: 99px; background: var(--tint); color: var(--soft); border: 1px solid var(--line);
}
.rr .chip.notice {
  background: var(--notice-tint); color: var(--notice); border-color: transparent;
}
.rr ul.warnings { list-style: none; padding: 0; margin: 0; }
.rr ul.warnings li {
  border-left: 3px solid var(--notice); background: var(--notice-tint); padding: 0.25rem 0.7rem;
  margin: 0.3rem 0; border-radius: 0 5px 5px 0; font-size: 0.88rem; color: #1d2126;
}
.rr ul.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 0.2rem 1.2rem; padding: 0; }
.rr ul.legend li { font-size: 0.86rem; margin: 0; color: var(--soft); }
.rr ul.legend i { display: inline-block; width: 1.1rem; height: 3px; margin: 0 0.4rem 0.2rem 0; }
.rr i.s0 { background: var(--s0); } .rr i.s1 { background: var(--s1); }
.rr i.s2 { background: var(--s2); } .rr i.s3 { background: var(--s3); }
.rr i.s4 { background: var(--s4); } .rr i.s5 { background: var(--s5); }
.rr .question { font-size: 1.15rem; font-weight: 600; margin: 0.3rem 0; }
.rr .sides { display: grid; grid-template-columns: 1fr 1fr; gap: 1.25rem; }
.rr .side { min-width: 0; }
.rr ol.ranking { list-style: none; margin: 0; padding: 0; }
.rr .ranking .card {
  border: 1px solid var(--line); border-left: 5px solid var(--line); border-radius: 6px;
  padding: 0.4rem 0.7rem; margin: 0 0 0.45rem; background: var(--card);
}
.rr .card.g3 { border-left-color: #2f7d43; } .rr .card.g2 { border-left-color: #6fae7d; }
.rr .card.g1 { border-left-color: #a9d0b1; } .rr .card.g0 { border-left-color: #d9a58f; }
.rr .card.unjudged { border-left-style: dashed; border-left-color: var(--faint); }
.rr .card .head { display: flex; flex-wrap: wrap; gap: 0.15rem 0.6rem; align-items: baseline; }
.rr .card .head code { flex: 1 1 6rem; min-width: 0; color: var(--soft); }
.rr .card .place { font-size: 1.02rem; min-width: 1.6rem; }
.rr .card .move { font-size: 0.8rem; color: var(--soft); min-width: 2.2rem; }
.rr .card .move.up { color: var(--better); } .rr .card .move.down { color: var(--worse); }
.rr .card .score { font-variant-numeric: tabular-nums; color: var(--soft); }
.rr .grade { font-size: 0.78rem; padding: 0.05rem 0.5rem; border-radius: 4px; color: #1d2126; }
.rr .grade.g3 { background: var(--g3); } .rr .grade.g2 { background: var(--g2); }
.rr .grade.g1 { background: var(--g1); } .rr .grade.g0 { background: var(--g0); }
.rr .grade.unjudged { background: #ecebe8; color: #4c535b; border: 1px dashed #9aa1a8; }
.rr .marks { display: flex; flex-wrap: wrap; gap: 0.25rem; margin: 0.2rem 0; }
.rr .text { font-size: 0.88rem; line-height: 1.45; white-space: pre-wrap; }
.rr details summary { cursor: pointer; color: var(--accent); font-size: 0.82rem; }
.rr dl {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr));
  gap: 0 2rem; margin: 0.3rem 0; padding: 0; font-size: 0.86rem;
}
.rr dl > div {
  display: grid; grid-template-columns: 12rem minmax(0, 1fr); gap: 0.75rem; padding: 0.25rem 0;
  border-bottom: 1px solid var(--line);
}
.rr dt { color: var(--soft); font-weight: 400; } .rr dd { margin: 0; }
@media (max-width: 760px) {
  .stMainBlockContainer { padding: 1rem 0.8rem 3rem; }
  .rr .sides { grid-template-columns: 1fr; }
  .rr dl > div { grid-template-columns: 9rem minmax(0, 1fr); }
}
</style>"""
)
