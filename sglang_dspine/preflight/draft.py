"""The drafter: where it lies on this machine, whether it is whole, whether it fits the target."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from ..checkpoint.target import check_against_target
from ..config import DraftConfig, load_config
from ..errors import CheckpointError, DSpineError
from .files import incomplete
from .finding import FAIL, OK, WARN, Finding
from .model import Target

CACHED = "the server will fetch it, and check it then"


def local_folder(draft: str) -> Path | None:
    """A folder as it stands; of a repository id, the snapshot that Hugging Face's cache holds, if any."""
    if Path(draft).is_dir():
        return Path(draft)
    if draft.count("/") != 1 or draft.startswith(("/", ".", "~")):
        return None
    hub = Path(os.environ.get("HF_HOME") or "~/.cache/huggingface").expanduser() / "hub"
    repository = hub / f"models--{draft.replace('/', '--')}"
    try:
        return repository / "snapshots" / (repository / "refs" / "main").read_text().strip()
    except OSError:
        return None


def check_pair(draft: str, target: Target) -> list[Finding]:
    """Hidden size, vocabulary, depth and taps; reports that end in acceptance near 1 are about these."""
    folder = local_folder(draft)
    if folder is None:
        if draft.startswith(("/", ".", "~")) or draft.count("/") != 1:
            return [Finding(FAIL, "drafter", f"{draft}: no such folder", "set DRAFT= to a drafter's folder")]
        return [Finding(WARN, "drafter", f"{draft} is not on this machine", CACHED)]
    if troubles := incomplete(folder):
        return [Finding(FAIL, "drafter", f"{folder}: {'; '.join(troubles[:5])}", "download it again, completely")]
    try:
        _examine(folder)
        config = load_config(folder)
        if target.hidden is None or target.vocab is None or target.layers is None:
            stated = "the target's config.json states no hidden_size, vocab_size or num_hidden_layers"
            return [Finding(WARN, "drafter", f"{folder}: not compared, {stated}", "the server compares them itself")]
        check_against_target(config, target.hidden, target.vocab, target.layers, str(folder))
    except DSpineError as error:
        return [
            Finding(FAIL, "drafter", _in_a_line(error), "set DRAFT= to the drafter that was trained for this target")
        ]
    return [Finding(OK, "drafter", describe(folder, config))]


def check_values(draft: str) -> list[Finding]:
    """Every value of a drafter on this machine, as the server would look at them minutes later: it reads all weights
    (and checksums, where a manifest has them), needs torch, and says nothing about a drafter that is still to come."""
    folder = local_folder(draft)
    if folder is None:
        return []
    from ..checkpoint.examine import examine

    try:
        examine(folder).raise_problems()
    except DSpineError as error:
        return [Finding(FAIL, "drafter", _in_a_line(error), "download or convert it again")]
    return [Finding(OK, "drafter's values", "every one read, as a drafter of this kind may have them")]


def _examine(folder: Path) -> None:
    """Names and shapes of every tensor, as `sglang-dspine inspect` sees them; a host that only has Docker leaves that
    to the server. Raises CheckpointError."""
    if importlib.util.find_spec("safetensors") is not None:
        from ..checkpoint.examine import examine_headers

        examine_headers(folder).raise_problems()


def _in_a_line(error: DSpineError) -> str:
    """Of many problems the first, with their number."""
    problems = error.problems if isinstance(error, CheckpointError) else ()
    if len(problems) < 2:
        return str(error)
    return f"{problems[0]}; {len(problems) - 1} more problems, which sglang-dspine inspect lists"


def describe(folder: Path, config: DraftConfig) -> str:
    taps = ", ".join(map(str, config.target_layer_ids))
    return (
        f"{folder}: block {config.block_size}, hidden {config.hidden_size}, vocabulary {config.vocab_size}, "
        f"taps {taps} of {config.num_target_layers or 'unknown'} layers, as the target"
    )
