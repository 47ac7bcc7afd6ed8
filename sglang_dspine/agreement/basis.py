"""What a conversion will be measured on; everything that can be wrong with it is found before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..checkpoint.locate import locate_checkpoint
from ..config import DraftConfig
from ..errors import DSpineError
from ..exactness.prompts import read_prompts
from .captures import Captures, load_captures, synthetic
from .draft import checked_anchors
from .record import BUILT_IN, check_target, record


@dataclass(frozen=True)
class TargetText:
    """Text that a target will write."""

    config: DraftConfig
    target: str
    prompts: tuple[str, ...]
    device: str

    def record(self, progress: Callable[[], None]) -> Captures:
        """Let it write; hours for a large target on a CPU."""
        layers, mask = self.config.target_layer_ids, self.config.mask_token_id
        found = record(self.target, self.prompts, layers, mask, device=self.device, progress=progress)
        checked_anchors(found, self.config)
        return found


def basis(
    config: DraftConfig, target: str | None, prompts: Path | None, captures: Path | None, device: str | None
) -> Captures | TargetText:
    """Captures of a file, of the text of `target`, or random ones.

    Raises:
        DSpineError: options that exclude or need each other, and whatever a file or the target lacks.
    """
    if target is not None and captures is not None:
        raise DSpineError("--target and --captures: both say what to measure on; pass one")
    if target is None:
        for option, value in (("--prompts", prompts), ("--device", device)):
            if value is not None:
                raise DSpineError(f"{option} says how a target writes; pass --target with it")
        found = synthetic(config) if captures is None else load_captures(captures)
        checked_anchors(found, config)
        return found
    texts = BUILT_IN if prompts is None else _texts(prompts)
    folder = str(locate_checkpoint(target, kind="a target"))
    check_target(folder, config, device or "cpu", texts)
    return TargetText(config, folder, texts, device or "cpu")


def _texts(path: Path) -> tuple[str, ...]:
    found = read_prompts(path)
    if not all(isinstance(prompt, str) for prompt in found):
        raise DSpineError(f"{path}: expected prompts as text, found token ids")
    return tuple(str(prompt) for prompt in found)
