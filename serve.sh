#!/usr/bin/env bash
# Serve a target with the DSpine drafter: an SGLang endpoint with --speculative-algorithm DSPINE.
#
#   ./serve.sh --demo [--once] [-- SGLANG_ARGS]      the small pair of this repository; installs what it needs in
#                                                    .venv, checks the text against plain decode, serves on;
#                                                    --once: stop after the check, exit status 0 when it held
#   MODEL=/path [DRAFT=/path] ./serve.sh [--docker] [-- SGLANG_ARGS]
#                                                    in a container, which serves on after this script; the image is
#                                                    built at the first start; flags by the GPU's compute capability
#   MODEL=/path [DRAFT=/path] ./serve.sh --native [-- SGLANG_ARGS]
#                                                    the same with an installed SGLang, in the foreground
#   ... --dry-run                                    print preflight, memory budget and exact command; start nothing
#   ... --restart                                    replace what is served on PORT; without it, a second start of the
#                                                    same settings only reports the first
#   ./serve.sh --status | --logs | --stop            what serves on PORT; the end of its log; stop it
#                                                    --status: exit status 0 healthy, 3 nothing, 4 starting, 5 it does
#                                                    not answer; the log before the last start is PORT.log.1
#
# Settings: environment, then .env beside this file, then the default.
#   PORT         30000                                 DRAFT          tencent/Qwen3.8-27B-DSpine-b16
#   HOST         127.0.0.1                             API_KEY        clients must send it; never written to a log
#   MODEL        target's folder                       START_LIMIT    seconds until healthy, 600
#   PREFLIGHT    refuse; warn starts although a check failed, such as short memory
#   IMAGE        a built image (docker); this repository's, built when it is not there
#   DSPINE_CACHE   compiled kernels and downloads of the container (~/.cache/sglang-dspine)
#   DSPINE_PYTHON  an interpreter with SGLang and this package; nothing is installed then
#   DSPINE_VENV    where --demo installs (.venv)       DSPINE_STATE   logs and records (~/.local/state/sglang-dspine)
# Arguments after -- go to SGLang last, so they win.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

die() {
    printf 'serve.sh: %s\n' "$*" >&2
    exit 2
}

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$root/serve.sh"; }

# NAME=value lines, values as they stand or in one pair of quotes; what the environment has already, stays.
load_env_file() {
    local line name value number=0
    [[ -f $1 ]] || return 0
    while IFS= read -r line || [[ -n $line ]]; do
        number=$((number + 1))
        line=${line%$'\r'}
        [[ $line =~ ^[[:space:]]*(#|$) ]] && continue
        [[ $line =~ ^[[:space:]]*(export[[:space:]]+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)$ ]] ||
            die "$1 line $number: expected NAME=value" # its text is not shown: it could be a key
        name=${BASH_REMATCH[2]} value=${BASH_REMATCH[3]}
        [[ $value =~ ^\"(.*)\"$ || $value =~ ^\'(.*)\'$ ]] && value=${BASH_REMATCH[1]}
        [[ -v $name ]] || export "$name=$value"
    done <"$1"
}

# The interpreter to run, or would run, SGLang: named, installed by --demo, or the first python3.
installed_python() {
    local venv=${DSPINE_VENV:-$root/.venv}
    if [[ -n ${DSPINE_PYTHON:-} ]]; then
        echo "$DSPINE_PYTHON"
    elif [[ $mode == demo || -x $venv/bin/python ]]; then
        echo "$venv/bin/python"
    else
        command -v python3 || die "found no python3; install Python 3.11 or 3.12"
    fi
}

mode='' start=1 restart=0 action='' words=()
while (($#)); do
    case $1 in
        --demo | --native | --docker)
            [[ -z $mode || $mode == "${1#--}" ]] || die "--$mode and $1: choose one"
            mode=${1#--}
            ;;
        --once) words+=("$1") ;;
        --restart) restart=1 words+=("$1") ;;
        --dry-run) start=0 words+=("$1") ;;
        --status | --stop | --logs) start=0 action=$1 words+=("$1") ;;
        -h | --help)
            usage
            exit
            ;;
        --)
            words+=("$@")
            break
            ;;
        *) die "unknown argument $1; SGLang's own arguments go after --, and --help lists the rest" ;;
    esac
    shift
done

load_env_file "$root/.env"
for name in MODEL DRAFT DSPINE_SPS_TABLE; do # as the caller sees them, whatever folder Python runs in
    if [[ -n ${!name:-} && -e ${!name} ]]; then export "$name=$(realpath -- "${!name}")"; fi
done

if [[ -z $mode && -z $action ]] && docker info >/dev/null 2>&1; then mode=docker; fi
[[ -z $action ]] || mode='' # whoever serves there
case $mode in
    demo) module=demo.serve ;;
    native) module=sglang_dspine.serve ;;
    docker) module=sglang_dspine.serve words=(--docker "${words[@]}") ;;
    '')
        [[ -n $action ]] || die "no Docker engine answers here; say --native (MODEL with an installed SGLang) or --demo (the embedded pair)"
        module=sglang_dspine.serve
        ;;
esac

if ((start)) && [[ $mode == demo && -z ${DSPINE_PYTHON:-} ]]; then
    venv=$("$root/scripts/setup-env.sh") # its progress goes to stderr
    DSPINE_PYTHON=$venv/bin/python
    unset PYTHONDONTWRITEBYTECODE # as in setup-env.sh
fi
DSPINE_PYTHON=$(installed_python)
export DSPINE_PYTHON

runner=$DSPINE_PYTHON
if ((!start)) || [[ $mode == docker ]]; then # planning, looking and Docker need no installation
    cd "$root"
    [[ -x $runner ]] || runner=$(command -v python3) || die "found no python3; install Python 3.10 or newer"
    "$runner" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || die "$runner is too old; install Python 3.10 or newer"
fi
if [[ $mode == demo ]]; then
    cd "$root"
    if ((restart)); then "$runner" -m sglang_dspine.serve --stop; fi
fi
command -v "$runner" >/dev/null || die "cannot run $runner; set DSPINE_PYTHON= to an interpreter that has SGLang and this package"
exec "$runner" -m "$module" "${words[@]}"
