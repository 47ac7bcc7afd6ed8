#!/usr/bin/env bash
# Run a command and copy small results out while it runs, so that a machine that is cut off has not run for nothing.
#
#   tests/gpu/keep.sh FROM TO COMMAND...     every 10 s: FROM/*.json, *.txt, *.csv and the command's output -> TO
#
# The command's output goes to TO/output.txt, never through a pipe: a server it leaves behind would hold the pipe open.
set -uo pipefail
from=$1 to=$2
shift 2
mkdir -p "$from" "$to"

copy() { find "$from" -maxdepth 1 -type f \( -name '*.json' -o -name '*.txt' -o -name '*.csv' \) -exec cp -t "$to" {} +; }

"$@" >"$to/output.txt" 2>&1 &
command=$!
while kill -0 "$command" 2>/dev/null; do
    sleep 10 &
    wait -n "$command" $!
    copy
done
wait "$command"
status=$?
copy
tail -c 9000 "$to/output.txt"
exit "$status"
