#!/bin/bash
# tools/test.sh MARKERS [PYTEST WORDS]: the tests with these markers, but none that need the device lab or real GPU
# hardware. As root, real libvirt and SSH tests run too; in CI (CI=true) a test that skips itself is a failure.
set -uo pipefail
cd "$(dirname "$0")/.."
select="not hw and not lab and $1"
shift
as_root=$([ "$(id -u)" -eq 0 ] && echo yes || true)
status=0

work=$(mktemp -d)
memory=""
alone=""
end() {
  [ -z "$alone" ] || { kill "$alone" 2>/dev/null; wait "$alone"; }
  rm -rf "$work" ${memory:+"$memory"}
}
trap end EXIT

# Tests that share the machine's namespaces run one after the other, beside all others: they mostly wait for daemons.
if [ -n "$as_root" ]; then
  .venv/bin/pytest -q -n0 -m "$select and (root or libvirtd)" "$@" >"$work/said" 2>&1 &
  alone=$!
else
  echo "not root: tests that need root or libvirtd are left out" >&2
fi

# Tests write many small ledgers, and wait for the disk at each commit: memory is used where there is room.
# One worker more than there are cores: half of the time a test waits.
free=$(df --output=avail -B1G /dev/shm 2>/dev/null | tail -n 1)
[ "${free:-0}" -lt 6 ] || memory=$(mktemp -d /dev/shm/vgpumgr-tests.XXXXXX)
.venv/bin/pytest -q -n $(($(nproc) + 1)) --dist loadfile --basetemp "${memory:-$work}/tests" \
  -m "$select and not root and not libvirtd" "$@" || status=$?

if [ -n "$as_root" ]; then
  echo "the tests that need root or libvirtd:"
  wait "$alone" || status=$?
  alone=""
  cat "$work/said"
fi
exit "$status"
