#!/bin/bash
#SBATCH --job-name=rlsched
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --mem-per-cpu=2G
#SBATCH --time=08:00:00
#SBATCH --signal=B:TERM@300
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=rlsched-%j.log
#
# Start Ray on the nodes of a job, run one rlsched command on it, and end Ray again. See docs/guide/on-a-cluster.md.
#
#     sbatch clusters/slurm.sh train --scenario green-10 --algo appo --set sampling.runners=40 --out /shared/runs/wide
#     sbatch --nodes=5 clusters/slurm.sh tune tune_configs/horizon.yaml --out /shared/runs/horizon
#
# Five minutes before its time is up the run saves itself and the job queues anew; where --out holds a run
# already, it goes on with that. --out must be in a folder that all nodes share.
# RLSCHED_VENV names the virtual environment, .venv where sbatch was called else.
# shellcheck disable=SC2317  # functions are called by traps, and by wait_for
set -euo pipefail

out=
previous=
for word in "$@"; do
    if [ "$previous" = --out ]; then out=$word; fi
    case $word in --out=*) out=${word#--out=} ;; esac
    previous=$word
done
case ${1-} in train | tune) ;; *) out= ;; esac
if [ -z "$out" ]; then
    echo "usage: sbatch clusters/slurm.sh train|tune ... --out FOLDER" >&2
    exit 2
fi
command=("$@")
if [ -e "$out/train.yaml" ] || [ -e "$out/sweep.yaml" ]; then
    command=("$1" --resume --out "$out")
fi

# shellcheck disable=SC1091  # which is not there where scripts are checked
source "${RLSCHED_VENV:-$SLURM_SUBMIT_DIR/.venv}/bin/activate"
export RAY_worker_niceness=0 # else runners come last beside a learner
# Whoever reaches Ray may run anything there, so that only who knows this job's token may.
RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export RAY_AUTH_TOKEN RAY_AUTH_MODE=token

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}
workers=$((${#nodes[@]} - 1))
# Jobs of others may be on the same nodes: ports and files are this job's own.
port=$((20000 + SLURM_JOB_ID % 10000 * 3))
files=/tmp/ray-$SLURM_JOB_ID
ip=$(srun --nodes=1 --ntasks=1 --nodelist="$head" \
    python -c 'from ray.util import get_node_ip_address; print(get_node_ip_address())')
address=$ip:$port

steps=()
run=
stopped=

clean_up() {
    trap - EXIT
    # A step that has ended by itself is what makes kill fail.
    for step in "${steps[@]}"; do kill -TERM "$step" 2> /dev/null || true; done
    wait
    srun --ntasks-per-node=1 rm -rf "$files"
}

stop() {
    stopped=yes
    if [ -n "$run" ]; then kill -TERM "$run" 2> /dev/null || true; fi
}

# Wait for something, as long as no step of Ray has failed.
wait_for() {
    local tries=0
    until "$@" > /dev/null 2>&1; do
        tries=$((tries + 1))
        for step in "${steps[@]}"; do
            if ! kill -0 "$step" 2> /dev/null; then
                echo "Ray has ended on its nodes: see above" >&2
                exit 1
            fi
        done
        if [ "$tries" -ge 60 ]; then
            echo "Ray is not there yet: $*" >&2
            exit 1
        fi
        sleep 2
    done
}

all_there() {
    python -c 'import sys, ray
ray.init(address=sys.argv[1], log_to_driver=False)
sys.exit(sum(node["Alive"] for node in ray.nodes()) < int(sys.argv[2]))' "$address" "${#nodes[@]}"
}

trap clean_up EXIT
trap stop TERM INT

srun --nodes=1 --ntasks=1 --nodelist="$head" ray start --head --node-ip-address="$ip" --port="$port" \
    --ray-client-server-port=$((port + 1)) --dashboard-agent-listen-port=$((port + 2)) \
    --include-dashboard=false --disable-usage-stats --temp-dir="$files" \
    --num-cpus="$SLURM_CPUS_PER_TASK" --num-gpus="${SLURM_GPUS_ON_NODE:-0}" --block &
steps+=($!)
wait_for ray health-check --address "$address"

if [ "$workers" -gt 0 ]; then
    srun --nodes="$workers" --ntasks="$workers" --ntasks-per-node=1 --exclude="$head" \
        ray start --address="$address" --dashboard-agent-listen-port=$((port + 2)) --disable-usage-stats \
        --num-cpus="$SLURM_CPUS_PER_TASK" --num-gpus="${SLURM_GPUS_ON_NODE:-0}" --block &
    steps+=($!)
fi
wait_for all_there

rlsched "${command[@]}" --address "$address" &
run=$!
code=0
wait "$run" || code=$?
# A signal ends the first wait, not the run.
if [ -n "$stopped" ] && kill -0 "$run" 2> /dev/null; then
    code=0
    wait "$run" || code=$?
fi
if [ -n "$stopped" ] && [ "$code" -eq 130 ]; then
    echo "saved; queueing again"
    clean_up # which Slurm would not wait for
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
