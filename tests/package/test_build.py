"""Wheel and sdist: built, complete, and installed beside SGLang without moving a version."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("package")]
ROOT = Path(__file__).resolve().parents[2]
OURS = ("sglang_dspine", "__editable__", "sglang-dspine")
SOURCES = (
    "pyproject.toml",
    "scripts/install.sh",
    "README.md",
    "LICENSE",
    "NOTICE",
    "THIRD_PARTY_NOTICES.txt",
    "sglang_dspine",
)


def run(*words: object, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        env=os.environ | environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=500,
    )  # in a folder that shadows nothing
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with both, built from the tracked sources by what is installed: nothing is downloaded."""
    folder = tmp_path_factory.mktemp("built")
    listed = run("git", "-C", ROOT, "ls-files", "-z", "--", *SOURCES).split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "source" / name)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, folder / "source")
    return folder


def environment(folder: Path) -> Path:
    """The interpreter of a new environment that sees every package of this one but ours, as links."""
    linked = folder / "linked"
    linked.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not any(name in path.name for name in OURS) and path.suffix != ".pth":
            (linked / path.name).symlink_to(path)
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "linked.pth").write_text(f"{linked}\n")
    return python


@pytest.fixture(scope="module")
def beside(built, tmp_path_factory) -> Path:
    """Such an interpreter, with the wheel."""
    python = environment(tmp_path_factory.mktemp("beside"))
    before = versions(python)
    assert before["sglang"] == "0.5.23" and "sglang-dspine" not in before
    (wheel,) = built.glob("*.whl")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--disable-pip-version-check", wheel)
    after = versions(python)
    assert after.pop("sglang-dspine") and after == before
    return python


def versions(python: Path) -> dict[str, str]:
    code = "import importlib.metadata as m; print(*{f'{d.name}=={d.version}' for d in m.distributions()}, sep='\\n')"
    return dict(line.split("==") for line in run(python, "-c", code).split())


def test_the_wheel_holds_every_module_the_types_the_tables_and_the_licence(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    tracked = run("git", "-C", ROOT, "ls-files", "--", "sglang_dspine").split()
    missing = [name for name in tracked if (ROOT / name).is_file() and name not in names]
    assert not missing and "sglang_dspine/py.typed" in names
    assert any(name.startswith("sglang_dspine/widths/packaged/") for name in names)
    assert {Path(name).name for name in names} >= {"LICENSE", "NOTICE", "THIRD_PARTY_NOTICES.txt", "entry_points.txt"}
    assert {name.split("/")[0].split("-")[0] for name in names} == {"sglang_dspine"}


def test_the_sdist_builds_the_same_wheel(built, tmp_path):
    (archive,) = built.glob("*.tar.gz")
    run("tar", "-xzf", archive, "-C", tmp_path)  # tarfile's safe way came with patch releases that a system may lack
    (source,) = tmp_path.iterdir()
    assert (source / "README.md").is_file() and (source / "LICENSE").is_file()
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path / "again", source)
    (first,), (again,) = built.glob("*.whl"), (tmp_path / "again").glob("*.whl")
    contents = [{one.filename: one.CRC for one in zipfile.ZipFile(path).infolist()} for path in (first, again)]
    assert contents[0] == contents[1]


def test_installed_beside_sglang_it_moves_no_version_and_brings_its_command(beside):
    told = run(beside.with_name("sglang-dspine"), "check", PYTHONPATH="")
    assert "symbols as expected" in told
    where = run(beside, "-c", "import sglang_dspine; print(sglang_dspine.__file__)", PYTHONPATH="").strip()
    assert where.startswith(str(beside.parents[1]))


def test_the_install_script_of_the_image_does_the_same_outside(built, tmp_path):
    """As docker/Dockerfile runs it, where the first python3 has SGLang already; nothing is downloaded."""
    python = environment(tmp_path)
    before, offline = (
        versions(python),
        {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"},
    )  # pip's own spelling of yes
    path = f"{python.parent}:{os.environ['PATH']}"
    script = built / "source" / "scripts" / "install.sh"
    assert "has SGLang 0.5.23 already" in run(script, "sglang", PATH=path, PYTHONPATH="", **offline)
    assert "symbols as expected" in run(script, "plugin", PATH=path, PYTHONPATH="", **offline)
    after = versions(python)
    assert after.pop("sglang-dspine") and after == before


def test_sglang_finds_the_plugin_of_the_wheel(beside):
    found = "importlib.metadata.entry_points(group='sglang.srt.plugins', name='dspine')"
    told = run(beside, "-c", f"import importlib.metadata; print(*(e.load() for e in {found}))", PYTHONPATH="")
    assert told.startswith("<function register at ")


def test_a_type_checker_reads_the_hints_of_the_wheel(beside, tmp_path):
    user = tmp_path / "user.py"
    user.write_text("from sglang_dspine.config import load_config\nnumber: int = load_config('x').block_size\n")
    wrong = tmp_path / "wrong.py"
    wrong.write_text("from sglang_dspine.config import load_config\ntext: str = load_config('x').block_size\n")
    words = [sys.executable, "-m", "mypy", "--python-executable", beside, "--cache-dir", tmp_path / "cache"]
    run(*words, "--config-file", "", user)
    refused = subprocess.run([*map(str, words), "--config-file", "", str(wrong)], capture_output=True, text=True)
    assert refused.returncode == 1 and "Incompatible types in assignment" in refused.stdout
