"""The stand-in stays out of the way of a GPU, and of what it does not implement."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

platform = pytest.importorskip("sglang_cpu_platform")
FOLDER = Path(__file__).parents[2] / "cpu"


def test_a_kernel_without_stand_in_fails_when_called_not_when_imported():
    from sgl_kernel import verify_tree_greedy_cpu

    with pytest.raises(NotImplementedError, match="verify_tree_greedy_cpu"):
        verify_tree_greedy_cpu()


def test_both_entry_points_do_nothing_beside_a_gpu(monkeypatch):
    from sglang_cpu_platform import hooks

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(hooks, "install", lambda: pytest.fail("hooks were installed"))
    assert platform.activate() is None
    platform.register()


def test_the_kernels_refuse_to_be_imported_beside_a_gpu(monkeypatch):
    import importlib

    import sgl_kernel

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(ImportError, match="pip uninstall sglang-dspine-cpu"):
        importlib.reload(sgl_kernel)


def test_the_build_refuses_a_machine_whose_driver_lists_a_gpu(tmp_path):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'GPU 0: a GPU'\n")
    tool.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    run = subprocess.run([sys.executable, "setup.py", "--version"], cwd=FOLDER, env=env, capture_output=True, text=True)
    assert run.returncode != 0
    assert "pip install sglang==" in run.stderr


def test_the_platform_drafts_only_what_was_tried():
    from sglang.srt.platforms import current_platform

    assert current_platform.supports_speculative_algorithm("DSPINE")
    assert not current_platform.supports_speculative_algorithm("EAGLE")
    assert current_platform.get_default_attention_backend() == "intel_amx"
