#!/bin/bash
# All tests but those that need the device lab or real GPU hardware. As root, real libvirt and SSH tests run too; in CI
# (CI=true) a test that skips itself is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
select="not hw and not lab"
if [ "$(id -u)" -ne 0 ]; then
  echo "not root: tests that need root or libvirtd are left out" >&2
  select="$select and not root and not libvirtd"
fi
# Tests that share the machine's namespaces or time themselves run alone, after the others.
.venv/bin/pytest -q -n "$(nproc)" --dist loadfile -m "$select and not root and not libvirtd" "$@"
if [ "$(id -u)" -eq 0 ]; then
  .venv/bin/pytest -q -n0 -m "$select and (root or libvirtd)" "$@"
fi
