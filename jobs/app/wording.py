"""Every word of the app in English and Korean, as one literal table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rerank.reporting.wording import listed

LANGUAGES = {"en": "English", "ko": "한국어"}
PAGES = {  # page, as it stands in the address -> key of its name
    "overview": "overview",
    "compare": "compare",
    "queries": "queries_page",
    "candidates": "candidates_page",
    "runs": "runs_page",
}

# key -> (English, Korean); {0}, {1} are filled in
WORDS: dict[str, tuple[str, str]] = {
    # pages
    "overview": ("Overview", "개요"),
    "compare": ("Compare", "비교"),
    "queries_page": ("Queries", "질의"),
    "candidates_page": ("Candidates", "후보"),
    "runs_page": ("Runs", "실행"),
    "page": ("Page", "페이지"),
    "language": ("Language", "언어"),
    "suite": ("Suite", "스위트"),
    "store": ("Store", "저장소"),
    # names of things
    "system": ("System", "시스템"),
    "systems": ("Systems", "시스템"),
    "task": ("Task", "태스크"),
    "tasks": ("Tasks", "태스크"),
    "all_tasks": ("all tasks", "모든 태스크"),
    "measure": ("Measure", "지표"),
    "query": ("Query", "질의"),
    "query_id": ("Query id", "질의 id"),
    "queries": ("Queries", "질의 수"),
    "mean": ("Mean", "평균"),
    "interval": ("{0} interval", "{0} 구간"),
    "rank": ("Rank", "순위"),
    "parameters": ("Params (B)", "파라미터(B)"),
    "pps": ("Pairs/s", "쌍/초"),
    "replay_pps": ("Pairs/s (replay)", "쌍/초(리플레이)"),
    "p95": ("p95 of one client (s)", "클라이언트 1개의 p95(초)"),
    "headroom": ("Headroom", "남은 여지"),
    "recovered": ("Recovered", "회복률"),
    "oracle": ("Oracle {0}", "오라클 {0}"),
    "truncated": ("Truncated", "잘림"),
    "tied": ("Tied", "동점"),
    "failed_pairs": ("No score", "점수 없음"),
    "recipe": ("Recipe", "레시피"),
    "recipe_verified": ("verified", "검증됨"),
    "recipe_unverified": ("unverified", "미검증"),
    "licence": ("Licence", "라이선스"),
    "size": ("Size", "크기"),
    "task_language": ("Language of task", "태스크 언어"),
    # overview
    "order_note": (
        "Click a column's head to sort by it.",
        "열 머리를 누르면 그 열로 정렬됩니다.",
    ),
    "macro_rule": (
        "Mean over {0} tasks, every task counting the same. A system without a value on one of "
        "them is not averaged with those that have it.",
        "태스크 {0}개의 평균이며 태스크마다 비중이 같습니다. 한 태스크라도 값이 없는 시스템은 "
        "값이 있는 시스템과 함께 평균하지 않습니다.",
    ),
    "excluded": (
        "Without a mean for that reason: {1} ({0}).",
        "그래서 평균이 없는 시스템: {1} ({0}개).",
    ),
    "intervals": (
        "{0} intervals and ranks (best and worst plausible) from {1} bootstrap resamples that all "
        "systems share.",
        "{0} 구간과 순위(가능한 최고와 최저)는 모든 시스템이 공유하는 부트스트랩 재표본 {1}개에서 "
        "얻었습니다.",
    ),
    "no_intervals": (
        "Means over tasks have intervals and ranks for {0} alone.",
        "여러 태스크의 평균은 {0}에만 구간과 순위가 있습니다.",
    ),
    "marks": (
        "★ best of its column; ≈ within the interval of the best, so that the lead is not shown.",
        "★ 열에서 가장 좋은 값, ≈ 그 값의 구간 안에 있어 우열이 드러나지 않은 값.",
    ),
    "speed_tasks": (
        "{0}: mean over the tasks on which it was measured: {1}.",
        "{0}: 측정한 태스크의 평균: {1}.",
    ),
    "waiting": (
        "Not in the table, since their runs were not complete when it was made: {0}.",
        "표를 만들 때 실행이 끝나지 않아 표에 없는 시스템: {0}.",
    ),
    "with_failures": (
        "Pairs without a score rank last; systems that have some: {0}.",
        "점수가 없는 쌍은 맨 뒤에 놓입니다. 그런 쌍이 있는 시스템: {0}.",
    ),
    "unverified": (
        "{0} systems were scored by a recipe that was not checked against its source.",
        "시스템 {0}개는 출처와 대조하지 않은 레시피로 채점했습니다.",
    ),
    "synthetic": (
        "Judgments are synthetic, at least in part: {0}.",
        "판정의 일부 또는 전부가 합성입니다: {0}.",
    ),
    "intervals_title": ("Means with intervals", "평균과 구간"),
    "scatter_title": ("Quality against throughput", "품질 대 처리량"),
    "scatter_label": (
        "{0} systems by pairs a second and quality. No system is better in both than: {1}",
        "시스템 {0}개의 초당 쌍과 품질. 두 가지 모두에서 더 나은 시스템이 없는 것: {1}",
    ),
    "scatter_measured": (
        "Pairs a second by rerank measure. The line joins the systems that none beats in both.",
        "초당 쌍은 rerank measure로 쟀습니다. 선은 둘 다에서 이기는 시스템이 없는 것들을 잇습니다.",
    ),
    "scatter_replay": (
        "Nothing was measured by rerank measure: these are pairs a second of worker time in the "
        "replay, on whatever machine it ran, and no protocol. The line joins the systems that none "
        "beats in both.",
        "rerank measure로 잰 값이 없어 리플레이할 때 작업자 시간 기준 초당 쌍을 보입니다. 어떤 "
        "장비였든 상관없는 값이며 정해진 측정 절차가 아닙니다. 선은 둘 다에서 이기는 시스템이 "
        "없는 것들을 잇습니다.",
    ),
    "scatter_none": (
        "No system has both a mean and a speed here.",
        "평균과 속도가 모두 있는 시스템이 없습니다.",
    ),
    "not_measured": ("Without a speed or a mean: {0}.", "속도나 평균이 없는 시스템: {0}."),
    "imported_title": ("Published results", "공표된 결과"),
    "imported_note": (
        "Shown as published by others, under their own protocol; compared with nothing above.",
        "다른 곳에서 자체 절차로 공표한 그대로이며, 위의 값과 비교하지 않습니다.",
    ),
    "warnings": ("What to know of this evaluation ({0})", "이 평가에서 알아둘 점 ({0})"),
    # empty and incomplete
    "nothing": ("Nothing is evaluated in this store yet.", "이 저장소에는 아직 평가가 없습니다."),
    "nothing_hint": (
        "rerank run SUITE or rerank evaluate SUITE writes what is shown here. What was scored "
        "so far stands on the page of runs.",
        "여기에 보이는 것은 rerank run SUITE나 rerank evaluate SUITE가 기록합니다. 지금까지 "
        "채점한 것은 실행 페이지에 있습니다.",
    ),
    "at_work": ("Replays that are not complete", "끝나지 않은 리플레이"),
    "empty_table": ("No row.", "행이 없습니다."),
    "no_tasks": ("No task is left by these filters.", "이 필터로는 남는 태스크가 없습니다."),
    "no_systems": ("No system is left by these filters.", "이 필터로는 남는 시스템이 없습니다."),
    "one_system": (
        "There is one system here; two are needed.",
        "시스템이 하나뿐입니다. 둘이 필요합니다.",
    ),
    "gone": (
        "The evaluation was written anew meanwhile; reload the page.",
        "그사이 평가가 새로 기록되었습니다. 페이지를 새로 고치세요.",
    ),
    # compare
    "first": ("First (reference)", "첫째(기준)"),
    "second": ("Second", "둘째"),
    "same_system": (
        "Both sides are the same system; choose two.",
        "양쪽이 같은 시스템입니다. 둘을 고르세요.",
    ),
    "no_common_task": (
        "The two have no task in common.",
        "두 시스템에 공통된 태스크가 없습니다.",
    ),
    "task_deltas": ("Tasks", "태스크별 차이"),
    "mean_over_tasks": ("mean over tasks", "태스크 평균"),
    "slices_title": ("Slices: {0}", "슬라이스: {0}"),
    "delta_title": ("Every query: {0}", "질의별 차이: {0}"),
    "delta": ("Delta", "차이"),
    "mean_delta": ("Mean delta", "평균 차이"),
    "corrected_p": ("Corrected p", "보정 p"),
    "wins": ("Wins", "승"),
    "ties": ("Ties", "무"),
    "losses": ("Losses", "패"),
    "reading": ("Reading", "해석"),
    "slice": ("Slice", "슬라이스"),
    "whole_task": ("whole task", "태스크 전체"),
    "too_few": ("too few queries", "질의가 너무 적음"),
    "reading_better": ("better", "나음"),
    "reading_worse": ("worse", "못함"),
    "reading_uncorrected": ("not after correction", "보정 후 차이 없음"),
    "reading_untested": ("not by the test", "검정으로는 차이 없음"),
    "reading_contradicted": ("mean and test disagree", "평균과 검정이 어긋남"),
    "reading_undecided": ("no difference shown", "차이가 드러나지 않음"),
    "reading_equal": ("all equal", "모두 같음"),
    "reading_unknown": ("no interval", "구간 없음"),
    "degenerate": ("all equal", "모두 같음"),
    "delta_bars": (
        "{0} queries, smallest delta first (at most 400 bars, evenly spaced)",
        "질의 {0}개, 차이가 작은 것부터 (막대는 최대 400개, 고르게 뽑음)",
    ),
    "delta_means": (
        "Second minus first: above 0 the second is better.",
        "둘째에서 첫째를 뺀 값: 0보다 크면 둘째가 낫습니다.",
    ),
    "cached_tests": (
        "From evaluate: {0} test, {1} correction over all {2} tests of the suite, alpha {3}.",
        "평가에서 가져온 값: {0} 검정, 스위트의 검정 {2}개 전체에 대한 {1} 보정, 유의수준 {3}.",
    ),
    "plain_tests": (
        "Neither is the suite's baseline, so this is made here: paired t intervals and tests, "
        "Holm's correction over the {0} tests of this table, alpha {1}.",
        "둘 다 스위트의 기준이 아니어서 여기서 계산합니다: 대응 t 구간과 검정, 이 표의 "
        "검정 {0}개에 대한 Holm 보정, 유의수준 {1}.",
    ),
    "gate": ("Release gate", "릴리스 게이트"),
    "gate_passed": ("The suite's release gate passed.", "스위트의 릴리스 게이트을 통과했습니다."),
    "gate_failed": (
        "The suite's release gate failed.",
        "스위트의 릴리스 게이트을 통과하지 못했습니다.",
    ),
    "gate_open": (
        "The suite's release gate is not judged.",
        "스위트의 릴리스 게이트이 판정되지 않았습니다.",
    ),
    "gate_none": ("No rule is about these two.", "이 둘에 관한 규칙이 없습니다."),
    "rule": ("Rule", "규칙"),
    "limit": ("Limit", "한계"),
    "observed": ("Observed", "관측값"),
    "verdict": ("Verdict", "판정"),
    "verdict_pass": ("pass", "통과"),
    "verdict_fail": ("fail", "실패"),
    "verdict_few": ("too few queries", "질의가 너무 적음"),
    "verdict_absent": ("about no system here", "여기 없는 시스템"),
    # queries
    "choice": ("Show", "보기"),
    "choice_regressions": ("Worst regressions", "가장 나빠진 질의"),
    "choice_gains": ("Biggest gains", "가장 좋아진 질의"),
    "choice_every": ("Every query", "모든 질의"),
    "choice_no_gold": ("No relevant document among the candidates", "후보에 정답이 없는 질의"),
    "choice_truncated": ("A text was cut", "글이 잘린 질의"),
    "choice_tied": ("Tied scores", "동점이 있는 질의"),
    "choice_failed": ("A pair without a score", "점수 없는 쌍이 있는 질의"),
    "choice_unanswerable": ("No relevant document is judged", "정답 판정이 없는 질의"),
    "search": ("Search in queries, or a query's id", "질의에서 찾기 또는 질의 id"),
    "any_slice": ("every slice", "모든 슬라이스"),
    "found": (
        "{0} queries; {1} to {2} are shown. Select a row to open it.",
        "질의 {0}개 중 {1}~{2}번. 행을 선택하면 열립니다.",
    ),
    "found_none": ("No query is like that.", "그런 질의가 없습니다."),
    "page_number": ("Part", "쪽"),
    "relevant": ("Relevant", "정답 수"),
    "gold_rank": ("Best gold rank in stage 1", "1단계에서 정답의 최고 순위"),
    "flags": ("Notes", "비고"),
    "flag_failed": ("no score", "점수 없음"),
    "flag_truncated": ("cut", "잘림"),
    "flag_tied": ("tied", "동점"),
    "flag_no_gold": ("no gold candidate", "정답 후보 없음"),
    "no_such_query": (
        "Task {0} has no query of this id.",
        "태스크 {0}에 그런 id의 질의가 없습니다.",
    ),
    "close_query": ("Back to the list", "목록으로"),
    "why": ("Why it moved", "왜 달라졌나"),
    "rankings": ("Both rankings", "두 순위"),
    "grade": ("grade {0}", "등급 {0}"),
    "unjudged_document": ("unjudged", "판정 없음"),
    "first_stage_rank": ("stage 1: {0}", "1단계: {0}"),
    "cut": ("cut to {0} tokens", "{0}토큰으로 잘림"),
    "tied_score": ("tied", "동점"),
    "injected": ("injected", "주입됨"),
    "no_score": ("no score", "점수 없음"),
    "whole_text": ("whole text ({0} characters)", "전체 글 ({0}자)"),
    "depth_shown": ("Documents shown", "보이는 문서 수"),
    "missed_documents": (
        "Judged relevant, but no candidate: {0}.",
        "정답으로 판정되었지만 후보가 아닌 문서: {0}.",
    ),
    "ranking_note": (
        "Scores are raw and differ in scale between systems. ▲ and ▼: places higher or lower than "
        "on the other side. What a cut lost is shown by rerank contract.",
        "점수는 원시값이며 시스템마다 지표가 다릅니다. ▲와 ▼는 다른 쪽보다 몇 자리 높거나 낮은지를 "
        "뜻합니다. 잘려 나간 부분은 rerank contract가 보여 줍니다.",
    ),
    "tie_note": (
        "The suite evaluates ties as '{0}'; here they stand in one order.",
        "스위트는 동점을 '{0}'로 평가합니다. 여기서는 한 가지 순서로 보입니다.",
    ),
    "why_nothing": (
        "No judged relevant document is a candidate: no order can be better than another.",
        "정답으로 판정된 후보가 없어 어떤 순서도 더 나을 수 없습니다.",
    ),
    "why_missed": (
        "Every relevant document was missed by the first stage: no order can be better.",
        "1단계가 모든 정답을 놓쳐 어떤 순서도 더 나을 수 없습니다.",
    ),
    "why_some_missed": (
        "Relevant documents that are no candidates, out of reach of both: {0}.",
        "후보가 아니어서 양쪽 모두 닿을 수 없는 정답 문서: {0}개.",
    ),
    "why_first": (
        "The first relevant document moved from rank {0} to {1}.",
        "첫 정답 문서가 {0}위에서 {1}위로 옮겨졌습니다.",
    ),
    "why_up": (
        "{0} (grade {1}) rose from rank {2} to {3}.",
        "문서 {0}(등급 {1}): {2}위에서 {3}위로 올랐습니다.",
    ),
    "why_down": (
        "{0} (grade {1}) fell from rank {2} to {3}.",
        "문서 {0}(등급 {1}): {2}위에서 {3}위로 내려갔습니다.",
    ),
    "why_cut": (
        "{0} was cut by the second system's input limit.",
        "문서 {0}: 둘째 시스템의 입력 한도에서 잘렸습니다.",
    ),
    "why_tied": (
        "{0} shares its score in the second system: the tie rule gave its rank.",
        "문서 {0}: 둘째 시스템에서 동점이라 동점 규칙이 순위를 정했습니다.",
    ),
    "why_failed": (
        "{0} has no score in the second system: {1}",
        "문서 {0}: 둘째 시스템에서 점수가 없습니다: {1}",
    ),
    "why_unjudged": (
        "Unjudged documents in the first {0} ranks: {1} before, {2} after; they count as no gain.",
        "상위 {0}위 안의 판정 없는 문서: 이전 {1}개, 이후 {2}개. 이득이 없는 것으로 셉니다.",
    ),
    "why_same": (
        "The relevant documents stand at the same ranks in both.",
        "정답 문서의 순위가 양쪽에서 같습니다.",
    ),
    "test_case": (
        "As a test case (one line of candidates.jsonl)",
        "테스트 사례로(candidates.jsonl 한 줄)",
    ),
    "export_cases": (
        "Test cases of the first {0} (candidates.jsonl)",
        "처음 {0}개의 테스트 사례(candidates.jsonl)",
    ),
    "export_rows": ("All {0} rows (CSV)", "모든 행 {0}개(CSV)"),
    # candidates
    "depth": ("Depth", "깊이"),
    "coverage": ("Coverage", "커버리지"),
    "recall": ("Candidate recall", "후보 재현율"),
    "depths_title": ("Ceiling by depth", "깊이별 상한"),
    "depths_label": (
        "Coverage, candidate recall and oracle of the first stage's first candidates, by depth",
        "1단계 상위 후보의 깊이별 커버리지, 후보 재현율, 오라클",
    ),
    "depths_note": (
        "Coverage: queries with a relevant candidate. Recall: relevant documents that are "
        "candidates. Oracle: the best order of the candidates. Injected candidates are left out.",
        "커버리지: 정답 후보가 있는 질의의 비율. 재현율: 후보에 든 정답의 비율. 오라클: 후보를 "
        "가장 잘 정렬했을 때의 값. 주입된 후보는 뺍니다.",
    ),
    "gold_title": ("Where stage 1 puts the best relevant document", "1단계가 정답을 놓은 순위"),
    "gold_label": (
        "Queries by the stage-1 rank of their best placed relevant document",
        "가장 앞선 정답 문서의 1단계 순위별 질의 수",
    ),
    "no_gold_short": ("none", "없음"),
    "unjudged_title": ("Unjudged documents among the first k", "상위 k개 중 판정 없는 문서"),
    "unjudged_note": (
        "A system that is shown more unjudged documents may be better than its value says.",
        "판정 없는 문서를 더 많이 올리는 시스템은 값보다 나을 수 있습니다.",
    ),
    "headroom_title": ("The way to the oracle", "오라클까지의 거리"),
    "candidates_sentence": (
        "Stage 1: {0}, depth {1}; {2} queries, {3} pairs.",
        "1단계: {0}, 깊이 {1}. 질의 {2}개, 쌍 {3}개.",
    ),
    "given": ("given candidates", "주어진 후보"),
    "unreachable": (
        "{0} queries have no relevant candidate.",
        "정답 후보가 없는 질의는 {0}개입니다.",
    ),
    "without_relevant": (
        "{0} queries have no relevant document at all.",
        "정답 문서가 아예 없는 질의는 {0}개입니다.",
    ),
    "injected_rows": (
        "{0} relevant documents were injected: no value here is that of a real first stage.",
        "정답 문서 {0}개를 주입했으므로 여기의 값은 실제 1단계의 값이 아닙니다.",
    ),
    # runs
    "state": ("State", "상태"),
    "shard": ("Shard", "샤드"),
    "shards": ("Shards", "샤드"),
    "shards_done": ("Done", "완료"),
    "shards_failed": ("Failed", "실패"),
    "pairs": ("Pairs", "쌍"),
    "message": ("Message", "메시지"),
    "fingerprint": ("Fingerprint", "지문"),
    "evaluated": ("complete, evaluated", "완료, 평가됨"),
    "not_evaluated": ("complete, not evaluated", "완료, 평가되지 않음"),
    "incomplete": ("incomplete", "미완료"),
    "incomplete_failed": ("incomplete, shards failed", "미완료, 실패한 샤드 있음"),
    "unreadable": ("unreadable", "읽을 수 없음"),
    "silent": ("no news for 5 minutes", "5분 동안 소식 없음"),
    "state_queued": ("queued", "대기"),
    "state_loading": ("loading", "적재 중"),
    "state_scoring": ("scoring", "채점 중"),
    "state_incomplete": ("incomplete", "미완료"),
    "state_refused": ("refused", "거부됨"),
    "runs_title": ("Runs of {0}", "실행: {0}"),
    "no_runs": ("No run in this store.", "이 저장소에는 실행이 없습니다."),
    "finish_hint": (
        "An incomplete run has no values. The command that started it finishes it; rerank status "
        "SUITE names it.",
        "끝나지 않은 실행에는 값이 없습니다. 시작한 명령이 나머지를 끝냅니다. rerank status "
        "SUITE가 그 명령을 알려 줍니다.",
    ),
    "run": ("Run", "실행"),
    "identity": ("Identity and environment", "식별 정보와 환경"),
    "receipts": ("Receipts (the newest {0})", "기록(receipt) (최근 {0}개)"),
    "failures": ("Failures", "실패"),
    "truncated_pairs": ("Cut", "잘림"),
    "seconds": ("Seconds", "초"),
    "deaths": ("Deaths", "프로세스 중단"),
    "worker": ("Worker", "작업자"),
    "file": ("File", "파일"),
    "no_failures": ("No failure is recorded.", "기록된 실패가 없습니다."),
    "records_title": ("What this evaluation is", "이 평가의 내용"),
    # controls
    "download": ("Download", "내려받기"),
    "permanent": (
        "The address of this page is a permanent link to this view.",
        "이 페이지의 주소가 지금 보기의 영구 링크입니다.",
    ),
    "filters": ("Filters (none: all)", "필터 (비우면 전체)"),
    "exported": (
        "Written once from {0}, evaluation {1}; nothing here is live.",
        "{0}의 평가 {1}에서 한 번 기록했으며, 자동으로 바뀌지 않습니다.",
    ),
    "files": ("Files of this table", "이 표의 파일"),
    "reference_note": ("Every system against {0}", "모든 시스템과 {0}의 비교"),
}
VERDICTS = {
    "pass": "verdict_pass",
    "fail": "verdict_fail",
    "too few queries": "verdict_few",
    "about no system here": "verdict_absent",
}
STATES = {"queued", "loading", "scoring", "incomplete", "refused"}


@dataclass(frozen=True)
class Words:
    """The table in one language: en or ko."""

    language: str = "en"

    def of(self, key: str, *values: object) -> str:
        """The wording of a key with its gaps filled; KeyError for a key that is none."""
        text = WORDS[key][1 if self.language == "ko" else 0]
        return text.format(*values) if values else text

    def listed(self, names: Sequence[str], shown: int = 5) -> str:
        """Some of the names, and how many more there are."""
        if self.language == "en":
            return listed(names, shown)
        more = f" 외 {len(names) - shown:,}개" if len(names) > shown else ""
        return ", ".join(names[:shown]) + more

    def verdict(self, name: str) -> str:
        """A rule's verdict; one that this table does not have is shown as it is."""
        return self.of(VERDICTS[name]) if name in VERDICTS else name

    def state(self, name: str) -> str:
        """A replay's state likewise."""
        return self.of(f"state_{name}") if name in STATES else name
