# Sourced by the kits of Kafka and NATS: one background process for each data folder, remembered by its pid.

running() {  # is the remembered process alive, and is it ours?
  local pid
  pid=$(cat "$DATA/peer.pid" 2> /dev/null) || return 1
  [[ -n $pid ]] && kill -0 "$pid" 2> /dev/null && tr '\0' ' ' < "/proc/$pid/cmdline" | grep -q -- "$MARK"
}

launch() {  # $1 what says that it is ready, the rest is the command; writes peer.pid and peer.ready, the seconds it took
  local ready=$1 began pid
  shift
  began=$(date +%s%N)
  nohup "$@" > "$DATA/server.log" 2>&1 < /dev/null &
  pid=$!
  echo "$pid" > "$DATA/peer.pid"
  until $ready; do
    kill -0 "$pid" 2> /dev/null || { tail -30 "$DATA/server.log" >&2; fail "the server ended before it was ready; log: $DATA/server.log"; }
    (( ($(date +%s%N) - began) / 1000000000 < ${PEER_READY_LIMIT:-180} )) || fail "not ready in time; pid $pid still runs; log: $DATA/server.log"
    sleep 0.01
  done
  awk -v began="$began" -v now="$(date +%s%N)" 'BEGIN { printf "%.3f\n", (now - began) / 1e9 }' > "$DATA/peer.ready"
  echo "ready: pid $pid, 127.0.0.1:$port, $(cat "$DATA/peer.ready") s"
}

stop() {
  local pid
  running || { echo "not running"; rm -f "$DATA/peer.pid"; return; }
  pid=$(cat "$DATA/peer.pid")
  kill "$pid"
  for _ in $(seq 600); do
    kill -0 "$pid" 2> /dev/null || { rm -f "$DATA/peer.pid"; echo "stopped $pid"; return; }
    sleep 0.1
  done
  fail "pid $pid is still there after 60 s"
}

logged() { grep -q -- "$READY" "$DATA/server.log" 2> /dev/null; }
