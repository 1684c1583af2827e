#!/bin/bash
# Stop the demo's simulated fleet and forget it.
set -euo pipefail
cd "$(dirname "$0")/../.."
export VGPUMGR_STATE_DIR="${VGPUMGR_DEMO_DIR:-$PWD/.demo}"
if [ -x .venv/bin/vgpumgr ] && [ -d "$VGPUMGR_STATE_DIR" ]; then
  .venv/bin/vgpumgr sim down || true
fi
rm -rf "$VGPUMGR_STATE_DIR"
if grep -qs '^# Made by "make demo"' vgpumgr.yaml; then rm -f vgpumgr.yaml; fi
