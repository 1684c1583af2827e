#!/bin/bash
# Set-up for a fresh Debian 12 or 13. Usage: setup.sh demo|test|lab
# Says what it does; does nothing that is done already. Packages come from the mirror the machine already uses.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-demo}" in
  demo) packages="python3 python3-venv python3-dev gcc libc6-dev pkg-config libvirt-dev libvirt0" ;;
  test) packages="libvirt-daemon libvirt-daemon-system libvirt-clients qemu-system-x86 qemu-utils ovmf openssh-server iproute2 sudo" ;;
  lab) packages="$(grep -v '^#' tests/lab/packages.txt | tr '\n' ' ')" ;;
  *) echo "usage: tools/setup.sh demo|test|lab" >&2; exit 2 ;;
esac

missing=""
for package in $packages; do
  dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
done

if [ -n "$missing" ]; then
  echo "set-up: installing Debian packages:$missing" >&2
  as_root=""
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "set-up: run once as root, or install:$missing" >&2; exit 1; }
    as_root="sudo"
  fi
  log=$(mktemp)
  export DEBIAN_FRONTEND=noninteractive
  if ! { $as_root apt-get -qq -o Acquire::Retries=3 update && $as_root apt-get -qq -y --no-install-recommends install $missing; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "set-up: apt-get could not install:$missing" >&2
    exit 1
  fi
  rm -f "$log"
fi

[ "${1:-demo}" = demo ] || exit 0

python=python3
for candidate in python3.13 python3.12 python3.11 python3; do
  if command -v "$candidate" >/dev/null && "$candidate" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    python=$candidate
    break
  fi
done
[ -x .venv/bin/python ] || { echo "set-up: making .venv with $($python --version)" >&2; "$python" -m venv .venv; }
echo "set-up: installing the pinned Python packages (requirements.lock)" >&2
.venv/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
.venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
.venv/bin/python -m compileall -q vgpumgr .venv/lib/python3*/site-packages/click >/dev/null
touch .venv/.ready
