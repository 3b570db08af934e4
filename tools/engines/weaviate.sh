#!/usr/bin/env bash
# A cluster of Weaviate on loopback, for tests: never for data.
#   weaviate.sh build          build the server that weaviate/go.mod pins, unless it is cached; print its path
#   weaviate.sh start [N]      build, start N nodes (default 3; else 1), wait until all have joined; print their addresses
#   weaviate.sh kill I         kill -9 node I      weaviate.sh start1 I   start it again
#   weaviate.sh stop           stop what was started, and remove its data
# The first build takes seven minutes of one core and 1.2 GB of ~/.cache/go-build: it optimises nothing, because tests do
# not wait for the server. The binary (150 MB) stays in ~/.cache/vecbolt-engines under the hash of go.sum. WEAVIATE_DIR
# is where nodes keep their data and pid files (default: /tmp/vecbolt-weaviate-UID), WEAVIATE_PORT the first of the 3
# ports of the interface (default 18080).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=${WEAVIATE_DIR:-${TMPDIR:-/tmp}/vecbolt-weaviate-$(id -u)}
port=${WEAVIATE_PORT:-18080}
host=127.0.0.1
# gossip, data, raft, raft's calls and gRPC, for each node
base=$((port + 100))

binary() { echo "${XDG_CACHE_HOME:-$HOME/.cache}/vecbolt-engines/weaviate-$(sha256sum "$here/weaviate/go.sum" | cut -c1-16)"; }

build() {
  local bin; bin=$(binary)
  if [ ! -x "$bin" ]; then
    mkdir -p "$(dirname "$bin")"
    (cd "$here/weaviate" && CGO_ENABLED=0 GOWORK=off GOFLAGS=-buildvcs=false nice -n 19 \
      go build -p="${WEAVIATE_BUILD_JOBS:-1}" -gcflags='all=-N -l' -ldflags '-s -w' -o "$bin.$$" github.com/weaviate/weaviate/cmd/weaviate-server) >&2
    mv "$bin.$$" "$bin"
  fi
  echo "$bin"
}

start1() {
  local i=$1 n k join='' raft='' bin; n=$(cat "$dir/nodes"); bin=$(binary)
  for k in $(seq 0 $((n - 1))); do
    # Every node lists every node, itself too: else a first node that comes back finds nobody.
    [ "$n" = 1 ] || join="$join${join:+,}$host:$((base + 10 * k))"
    raft="$raft${raft:+,}weaviate-$k:$((base + 10 * k + 2))"
  done
  mkdir -p "$dir/n$i"
  env -i PATH="$PATH" HOME="$dir" LOG_LEVEL=warning \
    DISABLE_TELEMETRY=true GO_PROFILING_DISABLE=true PROMETHEUS_MONITORING_ENABLED=false \
    AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED=true DEFAULT_VECTORIZER_MODULE=none AUTOSCHEMA_ENABLED=false API_BASED_MODULES_DISABLED=true \
    PERSISTENCE_DATA_PATH="$dir/n$i" CLUSTER_HOSTNAME="weaviate-$i" CLUSTER_IN_LOCALHOST=true \
    CLUSTER_BIND_ADDR=$host CLUSTER_ADVERTISE_ADDR=$host CLUSTER_JOIN="$join" \
    CLUSTER_GOSSIP_BIND_PORT=$((base + 10 * i)) CLUSTER_DATA_BIND_PORT=$((base + 10 * i + 1)) \
    RAFT_PORT=$((base + 10 * i + 2)) RAFT_INTERNAL_RPC_PORT=$((base + 10 * i + 3)) RAFT_JOIN="$raft" RAFT_BOOTSTRAP_EXPECT="$n" \
    GRPC_PORT=$((base + 10 * i + 4)) GOMEMLIMIT=1GiB GOMAXPROCS=2 \
    setsid nice -n 10 "$bin" --scheme http --host $host --port $((port + i)) >>"$dir/n$i.log" 2>&1 </dev/null &
  echo $! >"$dir/n$i.pid"
}

# alive PIDFILE: the process is there and is one of ours
alive() { [ -s "$1" ] && [ "$(readlink "/proc/$(cat "$1")/exe" 2>/dev/null)" = "$(binary)" ]; }

wait_ready() {
  sleep 1 # until env, setsid and nice have become the server
  local n i; n=$(cat "$dir/nodes")
  for _ in $(seq 240); do
    local ready=0
    for i in $(seq 0 $((n - 1))); do
      alive "$dir/n$i.pid" || { echo "node $i has ended:" >&2; tail -n 20 "$dir/n$i.log" >&2; return 1; }
      ! curl -sf -m 5 -o /dev/null "http://$host:$((port + i))/v1/.well-known/ready" || ready=$((ready + 1))
    done
    if [ "$ready" = "$n" ] && [ "$(curl -sf -m 5 "http://$host:$port/v1/nodes" | grep -o '"HEALTHY"' | wc -l)" = "$n" ]; then return 0; fi
    sleep 0.5
  done
  echo "the nodes are not ready after two minutes:" >&2
  tail -n 20 "$dir"/n*.log >&2
  return 1
}

stop() {
  [ -d "$dir" ] || return 0
  local f
  for f in "$dir"/n*.pid; do if alive "$f"; then kill "$(cat "$f")" || true; fi; done
  for f in "$dir"/n*.pid; do
    for _ in $(seq 40); do alive "$f" || break; sleep 0.25; done
    if alive "$f"; then kill -9 "$(cat "$f")" || true; fi
  done
  rm -rf "$dir"
}

case ${1:-} in
  build) build ;;
  start)
    build >/dev/null
    stop
    mkdir -p "$dir"
    echo "${2:-3}" >"$dir/nodes"
    for i in $(seq 0 $((${2:-3} - 1))); do start1 "$i"; done
    wait_ready
    seq -s, "$port" $((port + ${2:-3} - 1)) | sed "s/\([0-9]\{1,\}\)/$host:\1/g"
    ;;
  start1) start1 "$2"; wait_ready ;;
  kill) alive "$dir/n$2.pid" && kill -9 "$(cat "$dir/n$2.pid")" ;;
  stop) stop ;;
  *) sed -n '2,9s/^# //p' "$0"; exit 2 ;;
esac
