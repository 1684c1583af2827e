#!/bin/bash
# The main job on the simulated fleet: discover, partition, place, create, run, show the map, explain a refusal.
set -euo pipefail
cd "$(dirname "$0")/../.."
export VGPUMGR_STATE_DIR="${VGPUMGR_DEMO_DIR:-$PWD/.demo}"

# Typed in this clone, `.venv/bin/vgpumgr …` shows the demo fleet afterwards.
if [ ! -e vgpumgr.yaml ]; then
  (umask 022; printf '# Made by "make demo"; removed by "make demo-down".\nstate_dir: %s\n' "$VGPUMGR_STATE_DIR" >vgpumgr.yaml)
fi

step() { printf '\n\033[1m$ vgpumgr %s\033[0m\n' "$*"; .venv/bin/vgpumgr "$@"; }

step sim up -f examples/demo/fleet.yaml
step host set --all --layout auto
step layout apply -f examples/demo/layout.yaml -y
step apply -f examples/demo/vms.yaml
step map
step capacity T4-2Q A16-2B A40-8Q L40S-8Q L40S-16Q 1g.10gb 3g.40gb MI300X-1of8 FLEX-170-1of4 passthrough
step explain -f examples/demo/too-big.yaml || [ $? -eq 5 ]

# The pages, for a browser on this machine: to be read without a login.
serve_pages() {
  local port pid
  for port in {8700..8799}; do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && continue # another program listens there
    .venv/bin/vgpumgr api --loopback "$port" >"$VGPUMGR_STATE_DIR/api.log" 2>&1 </dev/null &
    pid=$!
    disown
    until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
      kill -0 "$pid" 2>/dev/null || continue 2
      sleep 0.1
    done
    echo "$pid $port" >"$VGPUMGR_STATE_DIR/api.pid"
    return
  done
  echo "the pages cannot be served: $(tail -n 1 "$VGPUMGR_STATE_DIR/api.log")" >&2
  return 1
}

read -r pid port 2>/dev/null <"$VGPUMGR_STATE_DIR/api.pid" && kill -0 "$pid" 2>/dev/null || serve_pages
read -r pid port <"$VGPUMGR_STATE_DIR/api.pid"
printf '\nThe map in a browser: \033[1mhttp://127.0.0.1:%s/\033[0m\n' "$port"
printf 'The fleet stays up: try .venv/bin/vgpumgr vm list, here in %s\n' "$PWD"
printf 'In any other folder it is: %q --state-dir %q vm list\n' "$PWD/.venv/bin/vgpumgr" "$VGPUMGR_STATE_DIR"
printf 'Stop it with: make demo-down\n'
