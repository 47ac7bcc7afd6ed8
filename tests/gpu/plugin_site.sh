#!/usr/bin/env bash
# Make this checkout visible to SGLang as an installed plugin, without pip: prints a folder to put on PYTHONPATH.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
site=${1:-$(mktemp -d)}
info=$site/sglang_dspine-0.1.0.dist-info
mkdir -p "$info"
ln -sfn "$root/sglang_dspine" "$site/sglang_dspine"
printf 'Metadata-Version: 2.1\nName: sglang-dspine\nVersion: 0.1.0\n' >"$info/METADATA"
printf '[sglang.srt.plugins]\ndspine = sglang_dspine.plugin:register\n' >"$info/entry_points.txt"
echo "$site"
