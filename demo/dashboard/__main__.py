"""`python -m demo.dashboard OUT.png --url http://127.0.0.1:30000`: load an endpoint, draw its dashboard.

A real Prometheus reads the endpoint's /metrics while users come and go; then each panel of
docker/monitoring/grafana/dspine.json asks it its own queries, and matplotlib draws the answers: what Grafana
shows, not how it looks. Needs `prometheus` on PATH and matplotlib.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from sglang_dspine.errors import DSpineError

from .load import USERS, load
from .panels import draw, legend
from .prometheus import RATE_S, SCRAPE_S, Series, ask, prometheus, scrapes

DASHBOARD = Path(__file__).resolve().parents[2] / "docker" / "monitoring" / "grafana" / "dspine.json"


def curves(url: str, panel: dict, start: float, end: float) -> list[tuple[str, Series]]:
    """Everything a panel shows, with the names of its legend."""
    return [
        (legend(target["legendFormat"], series.labels), series)
        for target in panel["targets"]
        for series in ask(url, target["expr"], start, end)
    ]


def render(endpoint: str, api_key: str | None, seconds: float, out: Path) -> str:
    """Load the endpoint for `seconds`, draw into `out`. Returns what was done, in a line."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    with tempfile.TemporaryDirectory() as folder, prometheus(endpoint, Path(folder)) as url:
        start = time.time()
        answers = load(endpoint, api_key, seconds)
        time.sleep(2 * SCRAPE_S)
        end = time.time()
        answered, asked = scrapes(url, start, end)
        found = [curves(url, panel, start, end) for panel in panels]
    users = ", ".join(map(str, USERS))
    note = (
        f"Queries of docker/monitoring/grafana/dspine.json, answered by Prometheus (a scrape every {SCRAPE_S} s, rates "
        f"over {RATE_S} s), drawn by matplotlib, not by Grafana. Across: seconds. Users: {users}; {answers} answers."
    )
    draw(panels, found, out, note)
    shown = f"{sum(bool(one) for one in found)} of {len(panels)} panels have data"
    return f"{out}: {shown}, {answers} answers, {answered} of {asked} scrapes in {end - start:.0f} s"


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m demo.dashboard", description="Draw the dashboard of an endpoint.")
    parser.add_argument("out", type=Path, help="a .png")
    parser.add_argument("--url", default="http://127.0.0.1:30000", help="a server with --enable-metrics")
    parser.add_argument("--seconds", type=float, default=180.0, help="how long the load lasts")
    given = parser.parse_args(words)
    try:
        print(render(given.url, os.environ.get("API_KEY"), given.seconds, given.out))
    except DSpineError as error:
        print(f"demo.dashboard: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
