#!/usr/bin/env bash
# Puts SGLang and this package into one environment of a GPU machine: in an image (docker/Dockerfile), and outside.
#
#   scripts/install.sh sglang    a virtual environment with SGLang 0.5.23 and the dependencies that it pins; nothing
#                                where the first python3 has SGLang 0.5.23 already
#   scripts/install.sh plugin    this package into it, moving none of those; fails unless every SGLang symbol is there
#   scripts/install.sh           both
#
#   VENV=/opt/venv               where; ignored when the first python3 has SGLang already
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=${VENV:-/opt/venv}
sglang=0.5.23

has_sglang() {
    [ "$("$1" -c 'import importlib.metadata as m; print(m.version("sglang"))' 2>/dev/null)" = "$sglang" ]
}

# The interpreter that SGLang is in, or will be.
interpreter() {
    if has_sglang python3; then
        command -v python3
    else
        echo "$venv/bin/python3"
    fi
}

install_sglang() {
    if has_sglang python3; then
        echo "python3 has SGLang $sglang already"
        return
    fi
    [ -x "$venv/bin/python3" ] || python3 -m venv "$venv"
    "$venv/bin/python3" -m pip install "sglang==$sglang"
}

install_plugin() {
    local python pins
    python=$(interpreter)
    pins=$(mktemp)
    has_sglang "$python" || {
        echo "install.sh: $python has no SGLang $sglang; run: scripts/install.sh sglang" >&2
        exit 1
    }
    # What is installed constrains what may come: the plugin moves no version of the deployment.
    "$python" -m pip freeze --exclude-editable | grep -v ' @ ' >"$pins"
    "$python" -m pip install -c "$pins" "$root"
    rm "$pins"
    "$python" -m sglang_dspine.cli.main check
}

case ${1:-both} in
    sglang) install_sglang ;;
    plugin) install_plugin ;;
    both)
        install_sglang
        install_plugin
        ;;
    *)
        echo "install.sh: expected sglang, plugin or nothing, found $1" >&2
        exit 2
        ;;
esac
