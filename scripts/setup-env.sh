#!/usr/bin/env bash
# Creates or completes the virtual environment that ./serve.sh and ./test.sh use, and prints its path.
#
#   scripts/setup-env.sh            .venv in the repository root, or $DSPINE_VENV
#   PYTHON=python3.12 scripts/...   another interpreter than the first of python3.11, 3.12, 3
#
# With a CUDA GPU (nvidia-smi lists one): SGLang with all its dependencies. Without: CPU PyTorch, SGLang without
# its GPU dependencies, and the stand-in for its kernels in ./cpu. Calling it again is cheap: what is installed
# is remembered by a hash of what asked for it, written last, so that a killed installation is redone.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=${DSPINE_VENV:-$root/.venv}
pins=$root/requirements/cpu.txt
sglang=0.5.23
unset PYTHONDONTWRITEBYTECODE # the environment is ours; without bytecode every start would compile thousands of modules

say() { printf '[setup] %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

has_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q .; }

find_python() {
    local name
    for name in ${PYTHON:-python3.11 python3.12 python3}; do
        if "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    die "found no Python 3.11 or 3.12 (tried: ${PYTHON:-python3.11 python3.12 python3}); install one, or set PYTHON=/path/to/python"
}

new_folder() {
    rm -rf "$venv"
    mkdir -p "$venv"
    touch "$venv/.dspine-begun"
}

make_venv() {
    "$1" -m venv "$venv" >/dev/null 2>&1 && return
    # Debian ships the venv module without pip's bootstrap, in a package of its own.
    local package
    package=$("$1" -c 'import sys; print("python3.%d-venv" % sys.version_info[1])')
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        die "$1 cannot create a virtual environment; install $package (Debian: apt-get install $package) and run this again"
    fi
    say "installing $package"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package"; } >/dev/null ||
        die "apt-get could not install $package; install it by hand and run this again"
    new_folder
    "$1" -m venv "$venv" >/dev/null || die "$1 -m venv $venv failed even with $package installed"
}

# Compiling every module of every package would cost a third of the time; try_it compiles those that are used.
pip() { "$venv/bin/python" -m pip --disable-pip-version-check install -qq --no-compile --no-warn-conflicts "$@"; }

try_it() {
    local cpu=0
    if [ "$mode" = cpu ]; then cpu=1; fi
    SGLANG_USE_CPU_ENGINE=$cpu "$venv/bin/python" -W ignore -c '
import sglang.launch_server, sglang.srt.managers.scheduler, sglang.srt.models.registry, sglang_dspine' 2>"$venv/first-import.log" ||
        { tail -5 "$venv/first-import.log" >&2 && return 1; }
}

# Says the step, runs it, and says how long it took.
step() {
    local title=$1 began=$SECONDS
    shift
    say "$title ..."
    "$@" || die "failed: $title"
    say "$title: $((SECONDS - began)) s"
}

# pip works on one core: PyTorch beside all the rest. Everything is pinned, so there is nothing to resolve; the last
# line brings what a CUDA build of PyTorch needs, should that be the one pip finds.
install_pinned() {
    local torch job status=0
    torch=$(grep '^torch==' "$pins")
    pip --no-deps "$torch" &
    job=$!
    pip --no-deps -r <(grep -v '^torch==' "$pins") || status=$?
    wait "$job" || status=$?
    [ $status = 0 ] && pip -c "$pins" "$torch"
}

install_base() {
    step "virtual environment in $venv with $1" make_venv "$1"
    if [ "$mode" = gpu ]; then
        step "SGLang $sglang with its GPU dependencies (several GB)" pip "sglang==$sglang"
        return
    fi
    step "PyTorch, SGLang $sglang and what they import on a CPU" install_pinned
}

install_project() {
    if [ "$mode" = cpu ]; then
        step "the CPU stand-in for SGLang's kernels" pip --no-deps --no-build-isolation --force-reinstall "$root/cpu"
        rm -rf "$root/cpu/build" "$root"/cpu/*.egg-info
    fi
    step "sglang-dspine" pip -e "${root}[test]"
    step "first import" try_it
}

hash_of() { sha256sum "$@" | sha256sum | cut -c1-16; }

# Succeeds when stage $1 was finished for hash $2.
is_done() { [ "$(cat "$venv/.dspine-$1" 2>/dev/null)" = "$2" ]; }

mode=cpu
if has_gpu; then mode=gpu; fi
cd "$root"
mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
flock 9 || die "another installation holds $venv.lock"

base="$mode $sglang $(hash_of requirements/cpu.txt)"
if ! is_done base "$base"; then
    # Someone's own environment must never be replaced; ours is marked before anything is put into it.
    if [ -e "$venv" ] && ! compgen -G "$venv/.dspine-*" >/dev/null; then
        die "$venv exists and was not made by this script; expected none, or one to replace. Move it, or set DSPINE_VENV"
    fi
    new_folder
    install_base "$(find_python)"
    echo "$base" >"$venv/.dspine-base"
fi

mapfile -d '' sources < <(find cpu -type f -not -path '*/__pycache__/*' -not -path '*/build/*' -not -path '*.egg-info/*' -print0 | sort -z)
project="$root $(hash_of pyproject.toml "${sources[@]}")"
if ! is_done project "$project"; then
    install_project
    echo "$project" >"$venv/.dspine-project"
fi

echo "$venv"
