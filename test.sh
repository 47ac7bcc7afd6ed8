#!/usr/bin/env bash
# Sets up what is missing and runs every test that this machine can run.
#
#   ./test.sh           fast tier: lint, types, all tests but those marked `full` or `gpu`
#   ./test.sh --full    the tests marked `full`
#   ./test.sh [--full] ARGS...   ARGS go to pytest
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

tier="not full and not gpu"
if [ "${1:-}" = --full ]; then
    tier="full and not gpu"
    shift
fi

venv=$(scripts/setup-env.sh)
export PATH="$venv/bin:$PATH" SGLANG_USE_CPU_ENGINE=1 OMP_NUM_THREADS=1

failed=()
check() {
    local name=$1
    shift
    echo "== $name"
    "$@" || failed+=("$name")
}

if [ "$tier" = "not full and not gpu" ] && [ $# = 0 ]; then
    mapfile -t scripts < <(git ls-files '*.sh' .ci/run 2>/dev/null || true)
    check "ruff" ruff check .
    check "mypy" mypy
    check "shellcheck" shellcheck "${scripts[@]}"
fi
check "pytest" python -m pytest -m "$tier" "$@"

if [ ${#failed[@]} -gt 0 ]; then
    echo "FAILED: ${failed[*]}"
    exit 1
fi
