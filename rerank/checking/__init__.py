"""What a task holds, before it is frozen: missing, doubled and odd things, labels given away."""

from rerank.checking.examination import examine
from rerank.checking.findings import Finding, exit_code
from rerank.checking.material import CandidateList, Judged, Material

__all__ = ["CandidateList", "Finding", "Judged", "Material", "examine", "exit_code"]
