"""An evening with serve.sh on a GPU: dry run, start, doctor, a second start, metrics, stop; and the memory budget
beside what SGLang says it took.

    python -m tests.gpu.operate OUT [MODEL DRAFT] [-- SGLANG_ARGS]     the demo pair when none is named

Exit status 0 when every step did what docs/deploy.md says. OUT/operate.json holds budget, doctor's findings and the
lines of SGLang's log about memory.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MEMORY = re.compile(r"avail mem|mem usage|Cache is allocated|max_total_num_tokens|max_mamba_cache_size|lm_head")
METRICS = ("sglang:spec_accept_length", "sglang:dspine_rounds_total", "sglang:num_queue_reqs")
LIMIT_S = 900.0


def main(out: Path, model: str, draft: str, extra: list[str]) -> int:
    out.mkdir(parents=True, exist_ok=True)
    state = out / "state"
    given = {**os.environ, "MODEL": model, "DRAFT": draft, "DSPINE_PYTHON": sys.executable, "DSPINE_STATE": str(state)}
    given |= {"PORT": os.environ.get("PORT", "30000"), "START_LIMIT": str(int(LIMIT_S))}
    url = f"http://127.0.0.1:{given['PORT']}"
    after = ["--", *extra] if extra else []

    def script(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(ROOT / "serve.sh"), *words], env=given, capture_output=True, text=True, timeout=120)

    def doctor(*words: str) -> dict[str, Any]:
        asked = [sys.executable, "-m", "sglang_dspine.cli.main", "doctor", "--json", *words, *after]
        return json.loads(subprocess.run(asked, env=given, capture_output=True, text=True, timeout=300).stdout)

    steps: dict[str, bool] = {}
    report: dict[str, Any] = {"before": doctor(), "dry_run": script("--native", "--dry-run", *after).stdout}
    steps["doctor finds nothing wrong before"] = report["before"]["ok"]
    server = subprocess.Popen(
        [str(ROOT / "serve.sh"), "--native", *after], env=given, stdout=(out / "out.txt").open("w")
    )
    try:
        steps["it serves"] = wait_serving(server, out / "out.txt")
        report["output"] = (out / "out.txt").read_text()
        if steps["it serves"]:
            report["after"] = doctor("--url", url)
            steps["doctor finds nothing wrong after"] = report["after"]["ok"]
            again = script("--native", *after)
            steps["a second start reports the first"] = again.returncode == 0 and "already" in again.stdout
            metrics = urllib.request.urlopen(f"{url}/metrics", timeout=30).read().decode()
            steps["metrics of the dashboard are there"] = all(name in metrics for name in METRICS)
            steps["stop ends it"] = script("--stop").returncode == 0 and server.wait(120) == 0
    finally:
        script("--stop")
        log = next(state.glob("*.log"), None)
        report["memory"] = [line for line in log.read_text().splitlines() if MEMORY.search(line)] if log else []
        report["steps"] = steps
        (out / "operate.json").write_text(json.dumps(report, indent=1))
    for step, held in steps.items():
        print(f"{'ok  ' if held else 'fail'} {step}")
    for line in report["memory"]:
        print(line)
    return 0 if all(steps.values()) and len(steps) == 6 else 1


def wait_serving(server: subprocess.Popen, output: Path) -> bool:
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end and server.poll() is None:
        if "serving at" in output.read_text():
            return True
        time.sleep(0.5)
    return False


if __name__ == "__main__":
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    place, model, draft = [*words[:cut], *(str(ROOT / "demo" / part) for part in ("target", "draft"))][:3]
    sys.exit(main(Path(place).resolve(), model, draft, words[cut + 1 :]))
