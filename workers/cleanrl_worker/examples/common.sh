# Sourced by the examples: `worker PHASE CONFIG` runs the CleanRL worker with one config, in a folder of its own below the
# run's, and `last_checkpoint PHASE` names the newest checkpoint that it left there.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${CLEANRL_PYTHON:-${MOSAIC_HOME:-$here/../../../var}/envs/cleanrl/venv/bin/python}
run=${MOSAIC_RUN_DIR:-$PWD/runs}

worker() {
    echo "@phase $1"
    mkdir -p "$run/$1"
    printf '{"run_id": "%s", %s' "$1" "${2#?}" >"$run/$1/config.json"
    # Started by hand there is no MOSAIC_RUN_DIR: then nobody can control the worker, which chooses the same folder itself.
    ${MOSAIC_RUN_DIR:+env MOSAIC_RUN_DIR="$run/$1"} "$python" -m cleanrl_worker.cli --config "$run/$1/config.json"
}

last_checkpoint() {
    printf '%s\n' "$run/$1/checkpoints/"step_* | sort | tail -n 1
}
