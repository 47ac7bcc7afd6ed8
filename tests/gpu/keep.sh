#!/usr/bin/env bash
# Run a command and pack small results while it runs, so that a machine that is cut off has not run for nothing.
#
#   tests/gpu/keep.sh FROM TO COMMAND...     every 10 s: FROM/*.{json,txt,csv,md} -> TO/results.tgz; output -> TO/output.txt
#
# One archive, because some machines give back few files. The command's output never goes through a pipe: a server it
# leaves behind would hold the pipe open.
set -uo pipefail
from=$1 to=$2
shift 2
mkdir -p "$from" "$to"

pack() {
    (cd "$from" && find . -maxdepth 1 -type f \( -name '*.json' -o -name '*.txt' -o -name '*.csv' -o -name '*.md' \) \
        -print0 | tar czf "$to/.results" --null -T - || [ $? = 1 ]) && # 1: a file grew meanwhile
        mv "$to/.results" "$to/results.tgz"
}

from=$(cd "$from" && pwd) to=$(cd "$to" && pwd)
"$@" >"$to/output.txt" 2>&1 &
command=$!
while kill -0 "$command" 2>/dev/null; do
    sleep 10 &
    wait -n "$command" $!
    pack
done
wait "$command"
status=$?
pack
tail -c 9000 "$to/output.txt"
exit "$status"
