#!/usr/bin/env bash
# One suite on Slurm: a Ray cluster over the nodes of the job, then `rerank run SUITE`, then nothing left.
#   sbatch cluster/slurm.sh configs/suites/korean.yaml store=/shared/store
#   sbatch --nodes=4 --gpus-per-node=8 cluster/slurm.sh configs/suites/korean.yaml store=/shared/store
# Words after the script go to `rerank run`; the store must be a folder that all nodes share, or a bucket.
# Submitting the same words again scores only what is missing.
# Change: the #SBATCH lines below (partition, account, sizes), or give them to sbatch. Before sbatch,
# activate the environment that `pip install -c constraints.txt -e .` made; it must be on all nodes.
# Variables: RERANK_REQUEUE=1       put the job back into the queue when its time is over, until it is done
#            RERANK_PORT            first of ten ports, if the one made of the job id is taken
#            RERANK_HEAD_ADDRESS    the address of the first node in the fast network, if not its name's
#            RERANK_START_TIMEOUT   seconds for the nodes to join, default 300
#SBATCH --job-name=rerank
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --gpus-per-node=1
#SBATCH --mem=48G
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@180
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=rerank-%j.log
set -euo pipefail

fail() {
    echo "slurm.sh: $1" >&2
    exit "${2:-1}"
}

[ "$#" -ge 1 ] || fail "no suite given; write sbatch cluster/slurm.sh configs/suites/NAME.yaml store=FOLDER" 2
[ -n "${SLURM_JOB_ID:-}" ] || fail "not inside a Slurm job; submit this script with sbatch" 2
for command in python ray rerank scontrol srun; do
    command -v "$command" > /dev/null \
        || fail "'$command' is not on the PATH of $(hostname); activate the environment before sbatch" 2
done

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}
# a name of this very host may be loopback (Debian writes 127.0.1.1), which no other node can reach
address=${RERANK_HEAD_ADDRESS:-$(getent ahostsv4 "$head" | awk '$1 !~ /^127\./ { print $1; exit }')}
[ -n "$address" ] || address=$(hostname -I | awk '{ print $1 }')
[ -n "$address" ] || fail "no address found for $head; set RERANK_HEAD_ADDRESS"

# Ten ports of the job's own below the ephemeral range, so that two jobs may share a node. Ray's workers
# take free ports instead of 10002 to 19999, for the same reason.
port=${RERANK_PORT:-$((20000 + SLURM_JOB_ID % 1200 * 10))}
daemons=(
    --node-manager-port=$((port + 1))
    --object-manager-port=$((port + 2))
    --dashboard-agent-listen-port=$((port + 3))
    --dashboard-agent-grpc-port=$((port + 4))
    --runtime-env-agent-port=$((port + 5))
    --metrics-export-port=$((port + 6))
    --min-worker-port=0
    --max-worker-port=0
    --num-cpus="${SLURM_CPUS_PER_TASK:-1}"
    --num-gpus="${SLURM_GPUS_ON_NODE:-0}"
    --object-store-memory=1000000000
    --disable-usage-stats
    --block
)

# Whoever reaches a Ray port without a token runs code as this user. Slurm hands the variable to the
# nodes; it is in no command line and in no file.
export RAY_AUTH_MODE=token
RAY_AUTH_TOKEN=${RAY_AUTH_TOKEN:-$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')}
export RAY_AUTH_TOKEN
export RAY_ENABLE_UV_RUN_RUNTIME_ENV=0 PYTHONUNBUFFERED=1
# A node that is told to end drains first, 30 seconds as Ray has it: as long as Slurm waits to kill it.
export RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=10

# Runs on every node: a private folder for Ray's sockets and logs (short, a socket's path may have 107
# characters), gone with the node's daemons.
scratch=/tmp/rerank-$SLURM_JOB_ID
# shellcheck disable=SC2016 # expanded on the node
node='
    set -u
    scratch=$1
    shift
    stopped=
    # ahead of everything: a signal that comes between two lines must leave nothing behind either
    trap "stopped=1; kill -TERM \${!:-} 2> /dev/null" TERM INT
    trap "[ ! -O \"$scratch\" ] || [ -L \"$scratch\" ] || rm -rf -- \"$scratch\"" EXIT
    if ! mkdir -m 700 "$scratch" 2> /dev/null && { [ ! -O "$scratch" ] || [ -L "$scratch" ]; }; then
        echo "slurm.sh: $scratch on $(hostname) belongs to somebody else; remove it" >&2
        exit 1
    fi
    [ -z "$stopped" ] || exit 143
    "$@" &
    daemon=$!
    [ -z "$stopped" ] || kill -TERM "$daemon" 2> /dev/null
    wait "$daemon"
    status=$?
    while kill -0 "$daemon" 2> /dev/null; do
        wait "$daemon"
        status=$?
    done
    exit "$status"
'

steps=()
driver=
stopped=

start_on() { # start_on SRUN_WORD... -- COMMAND...: one Slurm step in the background
    local where=()
    while [ "$1" != -- ]; do
        where+=("$1")
        shift
    done
    shift
    srun --overlap --export=ALL --kill-on-bad-exit=0 --ntasks-per-node=1 \
        --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" "${where[@]}" \
        bash -c "$node" rerank-node "$scratch" "$@" &
    steps+=("$!")
}

# shellcheck disable=SC2329 # trap calls it
clean_up() {
    local status=$? pid turn
    trap - EXIT
    trap '' TERM INT
    for turn in {0..124}; do # the nodes drain first
        for pid in "$driver" "${steps[@]}"; do # again after 12 s: what had just started may miss one
            [ $((turn % 60)) -ne 0 ] || [ -z "$pid" ] || kill -TERM "$pid" 2> /dev/null || true
        done
        [ -n "$(jobs -pr)" ] || break
        sleep 0.2
    done
    for pid in $(jobs -pr); do
        kill -KILL "$pid" 2> /dev/null || true
    done
    wait || true
    exit "$status"
}

# shellcheck disable=SC2329 # trap calls it
forward() { # the time is nearly over, or the job is cancelled: let the driver end its shards
    stopped=1
    [ -z "$driver" ] || kill -TERM "$driver" 2> /dev/null || true
    [ -n "$driver" ] || exit 1
}

trap clean_up EXIT
trap forward TERM INT

deadline=$((SECONDS + ${RERANK_START_TIMEOUT:-300}))
start_on --nodes=1 --ntasks=1 --nodelist="$head" -- \
    ray start --head --node-ip-address="$address" --port="$port" --include-dashboard=false \
    --ray-client-server-port=$((port + 7)) --temp-dir="$scratch/ray" "${daemons[@]}"
until (exec 3<> "/dev/tcp/$address/$port") 2> /dev/null; do
    kill -0 "${steps[0]}" 2> /dev/null \
        || fail "the head ended while it started; see above, or set RERANK_PORT if a port is taken"
    [ "$SECONDS" -lt "$deadline" ] || fail "the head on $address:$port did not start in time"
    sleep 0.2
done

if [ "${#nodes[@]}" -gt 1 ]; then
    others=$((${#nodes[@]} - 1))
    start_on --nodes="$others" --ntasks="$others" --exclude="$head" -- \
        ray start --address="$address:$port" "${daemons[@]}"
fi

# The number of workers is taken from the GPUs that are there when the driver starts: wait for all.
python - "$address:$port" "${#nodes[@]}" "$((deadline - SECONDS))" << 'PYTHON' || fail "not all nodes joined in time"
import sys
import time

import ray

address, wanted, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ray.init(address=address, log_to_driver=False, logging_level="ERROR")
deadline = time.monotonic() + seconds
while (joined := sum(node["Alive"] for node in ray.nodes())) < wanted:
    if time.monotonic() > deadline:
        sys.exit(f"{joined} of {wanted} nodes joined")
    time.sleep(1)
PYTHON

echo "slurm.sh: ${#nodes[@]} nodes at $address:$port; rerank run $*"
rerank run "$@" "cluster=$address:$port" &
driver=$!
while kill -0 "$driver" 2> /dev/null; do # a worker node may go, the driver does without it
    [ -n "$stopped" ] || kill -0 "${steps[0]}" 2> /dev/null \
        || fail "the head of the cluster ended before the suite; see above, then sbatch the same words again"
    sleep 0.5 &
    wait "$!" || true # a signal ends this wait at once, and its trap runs
done
status=0
wait "$driver" || status=$?

if [ -n "$stopped" ] && [ "$status" -ne 0 ]; then
    echo "slurm.sh: stopped before the end; every committed shard is kept, sbatch the same words again" >&2
    [ "${RERANK_REQUEUE:-0}" != 1 ] || scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
