"""On a GPU in bfloat16 a verify of 16 rows and a decode of one round differently: equal text is the wrong question.

There the target's rows that verify used are compared with an uncached re-score of the same text, and must not lie
further from it than plain decode's own rows do (level E2 of the package's exactness suite).
"""

from collections.abc import Sequence

from sglang_dspine.exactness.endpoint import Endpoint
from sglang_dspine.exactness.served_rows import served_rows
from sglang_dspine.exactness.teacher_forced import compare
from sglang_dspine.serve.settings import Settings

from .compare import Finding

CONCURRENCY, CONTROL_CONCURRENCY = 8, 4  # other batch sizes, as for two runs of plain decode


def compare_rows(settings: Settings, plain_url: str, prompts: Sequence[Sequence[int]], new_tokens: int) -> Finding:
    ours = Endpoint(settings.url, concurrency=CONCURRENCY, api_key=settings.api_key)
    plain = Endpoint(plain_url, concurrency=CONTROL_CONCURRENCY, api_key=settings.api_key)
    test, control = (served_rows(server, prompts, max_new_tokens=new_tokens) for server in (ours, plain))
    report = compare(test, control, settings.url)
    line = "rows that verify used against plain decode's: " + "; ".join(report.lines)
    return Finding(line, None if report.passed else "the target's rows lie further off than rounding explains")
