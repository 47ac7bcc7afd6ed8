"""Lets a torchvision built for CUDA be imported beside a PyTorch built for CPU.

SGLang imports torchvision. The registry's build is for CUDA: its compiled operators do not load beside a CPU
PyTorch, and its Python part then fails on two operators that were never declared. Declaring them is enough,
since nothing here calls them. It must happen before anything imports torchvision, hence at interpreter start,
through `sglang_cpu_platform.pth`; nothing is imported until somebody asks for torchvision.
"""

from __future__ import annotations

import sys

SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


class DeclareOnImport:
    """A finder that finds nothing: it declares the operators when torchvision is first looked for."""

    def __init__(self) -> None:
        self.declared = None

    def find_spec(self, name, path=None, target=None):
        if name == "torchvision":
            sys.meta_path.remove(self)
            from importlib.metadata import version

            import torch

            if torch.version.cuda is None and not version("torchvision").endswith("+cpu"):
                self.declared = torch.library.Library("torchvision", "DEF")
                for schema in SCHEMAS:
                    self.declared.define(schema)
                keep.append(self)
        return None


keep: list[DeclareOnImport] = []  # a collected Library would take its operators with it


def install() -> None:
    if not any(isinstance(finder, DeclareOnImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, DeclareOnImport())
