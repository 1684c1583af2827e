#!/bin/bash
# Stop the demo's pages and simulated fleet, and forget it.
set -euo pipefail
cd "$(dirname "$0")/../.."
export VGPUMGR_STATE_DIR="${VGPUMGR_DEMO_DIR:-$PWD/.demo}"
if read -r pid _ 2>/dev/null <"$VGPUMGR_STATE_DIR/api.pid" && grep -qs vgpumgr "/proc/$pid/cmdline"; then
  kill "$pid" || true
fi
# What `make monitoring-demo` started.
for noted in "$VGPUMGR_STATE_DIR"/monitoring/*.pid; do
  if read -r pid 2>/dev/null <"$noted" && grep -qs -- "$VGPUMGR_STATE_DIR" "/proc/$pid/cmdline"; then
    kill "$pid" || true
  fi
done
if [ -x .venv/bin/vgpumgr ] && [ -d "$VGPUMGR_STATE_DIR" ]; then
  .venv/bin/vgpumgr sim down || true
fi
rm -rf "$VGPUMGR_STATE_DIR"
if grep -qs '^# Made by "make demo"' vgpumgr.yaml; then rm -f vgpumgr.yaml; fi
