#!/bin/bash
# The device lab (docs/lab.md): the Vagrantfile's hosts with the project's own box, in namespaces that end on this machine.
# Usage, as root: lab.sh up [HOST…] | down | status | ssh HOST | exec COMMAND… | test [PYTEST ARGUMENT…]
set -euo pipefail
cd "$(dirname "$0")/../.."
run=$PWD/.lab/run
consoles=$run/consoles
up_deadline_s=900
say() { echo "lab: $*" >&2; }

running() { # the first process of our namespaces; a pid that now belongs to something else is not ours
  [ -s "$run/pid" ] && { tr '\0' '\n' <"/proc/$(cat "$run/pid")/cmdline" | grep -qxF "$run"; } 2>/dev/null
}

inside() {
  running || { say "the lab is down; start it with: make lab-up"; return 1; }
  VGPUMGR_LAB_BOX=$(cat "$run/box") VGPUMGR_LAB_CONSOLES=$consoles VAGRANT_HOME=$(cat "$run/box")/vagrant \
    VAGRANT_CWD=$PWD VAGRANT_DOTFILE_PATH=$run/machines VAGRANT_DEFAULT_PROVIDER=libvirt VAGRANT_CHECKPOINT_DISABLE=1 \
    nsenter --target "$(cat "$run/pid")" --mount --net --pid --wd="$PWD" "$@"
}

start() { # BOX
  rm -rf --one-file-system "$run"
  mkdir -p "$consoles"
  echo "$1" >"$run/box"
  setsid unshare --mount --net --pid --fork --kill-child --propagation private \
    tests/lab/namespaces.sh "$run" "$1" >"$run/libvirtd.log" 2>&1 </dev/null &
  local launcher=$!
  while kill -0 "$launcher" 2>/dev/null; do
    if running && inside virsh --quiet --connect qemu:///system list >/dev/null 2>&1; then return; fi
    sleep 0.2
  done
  cat "$run/libvirtd.log" >&2
  say "libvirtd did not start"
  return 1
}

vagrant_up() { timeout --signal=INT "$up_deadline_s" tests/lab/lab.sh exec vagrant up --no-tty "$@" >&2; }

up() {
  local box
  box=$(tests/lab/box.sh)
  if running && [ "$(cat "$run/box")" != "$box" ]; then
    say "the box is new: starting over"
    down
  fi
  running || start "$box"
  if ! vagrant_up "$@"; then
    # With all that is in the namespaces: an interrupted vagrant goes on cleaning up beside the next one.
    say "a host did not come up; once more, from nothing"
    down
    start "$box"
    vagrant_up "$@"
  fi
  tests/lab/lab.sh exec python3 tests/lab/describe.py "$run" "$(cat "$run/box")" >"$run/hosts.json"
  cat "$run/hosts.json"
}

down() {
  if running; then
    local first
    first=$(cat "$run/pid")
    kill -KILL "$first" # the kernel ends all that is in the namespaces with it
    while [ -e "/proc/$first" ]; do sleep 0.1; done
  fi
  rm -rf --one-file-system "$run"
}

case "${1:-}" in
  up) shift; up "$@" ;;
  down) down ;;
  status) cat "$run/hosts.json" ;;
  ssh) shift; inside vagrant ssh "$@" ;;
  exec) shift; inside "$@" ;;
  test) shift; inside .venv/bin/python tests/lab/fleet.py && inside .venv/bin/pytest -n0 -q --durations=0 --durations-min=5 tests/lab "$@" ;;
  *) sed -n 's/^# Usage/usage/p' "$0" >&2; exit 2 ;;
esac; exit # so that an edit of this file does not reach a running one
