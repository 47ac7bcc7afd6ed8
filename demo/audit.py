"""On a GPU in bfloat16 a verify of 16 rows and a decode of one round differently, so equality is the wrong question.

There every token is re-scored with the cache off, and must be the target's top choice, or miss it by no more than plain
decode's own tokens do (level E3; the package's audit).
"""

from collections.abc import Sequence

from sglang_dspine.exactness.audit import audit
from sglang_dspine.exactness.endpoint import Endpoint
from sglang_dspine.serve.settings import Settings

from .compare import Finding


def audit_against(
    settings: Settings, plain_url: str, prompts: Sequence[Sequence[int]], new_tokens: int
) -> Finding:
    ours, plain = (Endpoint(url, api_key=settings.api_key) for url in (settings.url, plain_url))
    report = audit(ours, prompts, max_new_tokens=new_tokens, control=plain)
    beyond, total = report.facts["beyond"], report.facts["tokens"]
    line = f"{beyond} of {total} differ from the target's top choice by more than plain decode does"
    return Finding(f"{line} ({'; '.join(report.lines[:2])})", None if report.passed else f"{line}; expected 0")
