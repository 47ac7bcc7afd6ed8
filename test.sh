#!/usr/bin/env bash
# Sets up what is missing and runs every test that this machine can run.
#
#   ./test.sh                    fast tier: lint, types, and all tests but those marked `full`
#   ./test.sh --full             the tests marked `full`
#   ./test.sh [--full] ARGS...   only pytest, with these arguments
#
# Tests marked `gpu` run where there is a CUDA GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

tier="not full"
if [ "${1:-}" = --full ]; then
    tier="full"
    shift
fi

venv=$(scripts/setup-env.sh)
export PATH="$venv/bin:$PATH"
unset PYTHONDONTWRITEBYTECODE # as in setup-env.sh
spread=()
if ! grep -q '^gpu' "$venv/.dspine-base"; then
    tier="$tier and not gpu"
    # One process for the tests of real SGLang, which share an engine, one for the others.
    if [ $# = 0 ]; then spread=(-n 2 --dist loadgroup); fi
fi

run_pytest() {
    local status=0
    python -m pytest -m "$tier" "${spread[@]}" "$@" || status=$?
    if [ $status = 5 ] && [ $# = 0 ]; then # pytest's word for an empty tier
        echo "no test is marked: $tier"
        return 0
    fi
    return $status
}

failed=()
check() {
    local name=$1
    shift
    echo "== $name"
    "$@" || failed+=("$name")
}

if [ "${tier%% and*}" = "not full" ] && [ $# = 0 ]; then
    mapfile -d '' scripts < <(find . -name '*.sh' -not -path './.*' -print0)
    check "ruff" ruff check .
    check "mypy" mypy
    check "shellcheck" shellcheck .ci/run "${scripts[@]}"
fi
check "pytest" run_pytest "$@"

if [ ${#failed[@]} -gt 0 ]; then
    echo "FAILED: ${failed[*]}"
    exit 1
fi
