#!/usr/bin/env bash
# Runs every test (Rust, Python, browser) and installs what they need: Python packages into target/venv, node packages
# into tests/browser/node_modules, and, where there is none, Debian's Chromium and its nginx (below target/).
#
#   tests/run.sh               everything
#   tests/run.sh rust          one part: rust, python or browser
#   tests/run.sh ray           not among everything: Ray's own models read our views (installs Ray, about 400 MB)
#   tests/run.sh integrations  nor this: real trainings by Ray Train, PyTorch, Hugging Face, Lightning, Keras, XGBoost and
#                              LightGBM, recorded (installs them, about 2 GB with Debian's PyTorch)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
parts=("${@:-rust}")
[ $# -eq 0 ] && parts=(rust python browser)
logs=$root/target/test-logs
mkdir -p "$logs"
# What the person who runs the tests has configured for their own runs is not for the tests.
unset "${!TRAINHEAD_@}" 2>/dev/null || true
export TRAINHEAD_BIN=$root/target/debug/trainhead
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-auto}

say() { printf '\n== %s\n' "$*"; }

# The program, with a test beside it: then it is the same build as that of the Rust tests, and not another one without the
# features that only tests want.
build() { cargo build --quiet --bin trainhead --test tidy; }

rust() {
    say "Rust: format and lints"
    cargo fmt --check
    cargo clippy --all-targets --quiet -- -D warnings
    say "Rust: tests"
    if cargo nextest --version >/dev/null 2>&1; then
        cargo nextest run --cargo-quiet 2>&1 | tee "$logs/rust"
    else
        cargo test --quiet 2>&1 | tee "$logs/rust"
    fi
    say "Rust: the examples of an embedded controller"
    local dir
    dir=$(mktemp -d)
    cargo run --quiet --example linear -- "$dir/linear" >"$logs/linear"
    grep -q '"run_status": "FINISHED"' "$logs/linear"
    # Its first attempt fails in epoch 3, and the second goes on with it.
    cargo run --quiet --example digits_linfa -- "$dir/linfa" 3 >"$logs/linfa"
    grep -q 'attempt 1 begins with epoch 3' "$logs/linfa"
    grep -q '"run_status": "FINISHED"' "$logs/linfa"
    rm -rf "$dir"
}

python() {
    say "Python: packages"
    build
    local venv=$root/target/venv
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check pytest mypy ruff numpy schemathesis "moto[s3]" flask flask-cors
    say "Python: lints and types"
    cd "$root/python"
    "$venv/bin/ruff" check --config pyproject.toml . ../examples ../tests/ray_models.py ../benches
    "$venv/bin/ruff" format --check --config pyproject.toml . ../examples ../tests/ray_models.py ../benches
    "$venv/bin/mypy"
    say "Python: tests"
    "$venv/bin/python" -m pytest -q 2>&1 | tee "$logs/python"
    cd "$root"
}

# Debian's nginx, for the dashboard behind a proxy: the program alone, unpacked below target/, because an installed one
# would be a service that runs. The libraries that it wants are there wherever OpenSSL 3 is.
nginx_program() {
    [ -z "${NGINX_PROGRAM:-}" ] && [ ! -x /usr/sbin/nginx ] || return 0
    local dir=$root/target/nginx
    export NGINX_PROGRAM=$dir/usr/sbin/nginx
    [ ! -x "$NGINX_PROGRAM" ] || return 0
    command -v apt-get >/dev/null || { echo "install nginx, or say NGINX_PROGRAM=/path/to/it" >&2; return 1; }
    local as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    rm -rf "$dir"
    mkdir -p "$dir"
    cd "$dir"
    apt-get download -qq nginx || { "${as_root[@]}" apt-get update -qq; apt-get download -qq nginx; }
    dpkg -x nginx_*.deb .
    cd "$root"
    "$NGINX_PROGRAM" -v 2>/dev/null || { echo "$NGINX_PROGRAM does not run: install nginx, or say NGINX_PROGRAM=/path/to/it" >&2; return 1; }
}

browser() {
    say "Browser: packages"
    build
    if ! command -v chromium >/dev/null && [ -z "${CHROMIUM:-}" ]; then
        command -v apt-get >/dev/null || { echo "install Chromium, or say CHROMIUM=/path/to/it" >&2; return 1; }
        local as_root=()
        [ "$(id -u)" = 0 ] || as_root=(sudo)
        "${as_root[@]}" apt-get update -qq
        "${as_root[@]}" apt-get install -y -qq --no-install-recommends chromium
    fi
    nginx_program
    cd "$root/tests/browser"
    npm ci --silent --no-audit --no-fund
    say "Browser: types, format and tests"
    npm test 2>&1 | tee "$logs/browser"
    cd "$root"
}

ray() {
    say "Ray: packages"
    build
    local venv=$root/target/ray-venv
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "ray[default,train]" pydantic
    say "Ray: its models read our views"
    "$venv/bin/python" tests/ray_models.py 2>&1 | tee "$logs/ray"
}

# PyTorch on PyPI brings 5 GB of CUDA along. Debian's is small; it is 1.13, and what needs a newer one is pinned below it.
debian_torch() {
    /usr/bin/python3 -c 'import torch' 2>/dev/null && return
    command -v apt-get >/dev/null || return
    local as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" apt-get install -y -qq --no-install-recommends -o DPkg::Options::=--force-unsafe-io \
        python3-torch python3-venv
}

integrations() {
    say "Integrations: packages"
    build
    local quiet=(--quiet --disable-pip-version-check) target=$root/target
    local venv=$target/venv ml=$target/ml-venv ray=$target/ray-venv torch=$target/torch-venv
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/pip" install "${quiet[@]}" pytest
    [ -x "$ml/bin/python" ] || python3 -m venv "$ml"
    "$ml/bin/pip" install "${quiet[@]}" jax keras lightgbm scikit-learn xgboost-cpu
    [ -x "$ray/bin/python" ] || python3 -m venv "$ray"
    "$ray/bin/pip" install "${quiet[@]}" "ray[train]" xgboost-cpu
    if debian_torch; then
        [ -x "$torch/bin/python" ] || /usr/bin/python3 -m venv --system-site-packages "$torch"
        "$torch/bin/pip" install "${quiet[@]}" "transformers<4.46" "lightning-utilities<0.12" "numpy<2" psutil
        # Without what they depend on: Debian's torch calls itself 1.13.0a0, and pip would bring another one.
        "$torch/bin/pip" install "${quiet[@]}" --no-deps "accelerate==0.26.1" "lightning<2.3" "torchmetrics<1.5"
    else
        echo "there is no PyTorch to be had: what needs it is skipped" >&2
    fi
    say "Integrations: tests"
    cd "$root/python"
    "$venv/bin/python" -m pytest -q -m integration 2>&1 | tee "$logs/integrations"
    cd "$root"
}

for part in "${parts[@]}"; do
    case $part in
    rust | python | browser | ray | integrations) "$part" ;;
    *) echo "tests/run.sh: no part '$part'; there are rust, python, browser, ray and integrations" >&2; exit 2 ;;
    esac
done

# The counts of each runner, in one place.
say "All passed"
total=0
for part in "${parts[@]}"; do
    case $part in
    rust) n=$(grep -aohE '[0-9]+ passed' "$logs/rust" | awk '{n += $1} END {print n + 0}') ;;
    python | ray | integrations) n=$(grep -aohE '[0-9]+ passed' "$logs/$part" | awk '{n += $1} END {print n + 0}') ;;
    browser) n=$(grep -aohE '^(#|ℹ) pass [0-9]+' "$logs/browser" | awk '{n += $3} END {print n + 0}') ;;
    esac
    printf '%-12s %5d passed\n' "$part" "$n"
    total=$((total + n))
done
echo "$total passed, 0 failed"
