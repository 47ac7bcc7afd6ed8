"""Refuses to be built where a GPU is present, and places the `.pth` file beside the packages."""

import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


def gpu_present() -> bool:
    tool = shutil.which("nvidia-smi")
    return tool is not None and subprocess.run([tool, "-L"], capture_output=True).returncode == 0


class BuildWithPth(build_py):
    def run(self):
        super().run()
        shutil.copy(Path(__file__).with_name("sglang_cpu_platform.pth"), self.build_lib)


if gpu_present():
    raise SystemExit(
        "sglang-dspine-cpu stands in for SGLang's CPU kernels and would overwrite the real sgl_kernel. "
        "Found a GPU (nvidia-smi -L succeeds); expected a machine without one. "
        "Install SGLang itself instead: pip install sglang==0.5.23"
    )

setup(cmdclass={"build_py": BuildWithPth})
