#!/bin/bash
# Set-up for a fresh Debian 12 or 13. Usage: setup.sh demo|test|monitoring|lab|release
# Says what it does; does nothing that is done already. Packages come from the mirror the machine already uses.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-demo}" in
  demo) packages="python3 python3-venv python3-dev gcc libc6-dev pkg-config libvirt-dev libvirt0 libldap2-dev libsasl2-dev" ;;
  test) packages="libvirt-daemon libvirt-daemon-system libvirt-clients qemu-system-x86 qemu-utils ovmf swtpm swtpm-tools openssh-client openssh-server iproute2 iptables sudo postgresql chromium fonts-dejavu-core bindfs fuse3 libvirt-daemon-driver-storage-rbd qemu-block-extra slapd ceph-mon ceph-osd ceph-common" ;;
  monitoring) packages="" ;;
  lab) packages="$(grep -v '^#' tests/lab/packages.txt | tr '\n' ' ')" ;;
  release) packages="mmdebstrap dnsmasq-base fdisk gpg" ;;
  *) echo "usage: tools/setup.sh demo|test|monitoring|lab|release" >&2; exit 2 ;;
esac

as_root=""
[ "$(id -u)" -eq 0 ] || as_root=sudo
export DEBIAN_FRONTEND=noninteractive

install() { # APT OPTIONS AND PACKAGES…
  echo "set-up: installing Debian packages: $*" >&2
  if [ -n "$as_root" ] && ! command -v sudo >/dev/null; then
    echo "set-up: run once as root, or install them yourself" >&2
    exit 1
  fi
  local log
  log=$(mktemp)
  if ! { $as_root apt-get -qq -o Acquire::Retries=3 update && $as_root apt-get -qq -y --no-install-recommends install "$@"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "set-up: apt-get could not install: $*" >&2
    exit 1
  fi
  rm -f "$log"
}

# Prometheus and Alertmanager with their tools, in a folder of this tree: installed packages would run both as services.
unpack_monitoring() {
  local folder=.monitoring templates=usr/share/prometheus/alertmanager work
  if [ ! -x $folder/usr/bin/amtool ]; then
    echo "set-up: unpacking Prometheus and Alertmanager into $folder" >&2
    work=$(mktemp -d)
    fetch() { (cd "$work" && apt-get -qq -o APT::Sandbox::User=root download prometheus prometheus-alertmanager) >"$work/log" 2>&1; }
    if ! fetch && ! { $as_root apt-get -qq -o Acquire::Retries=3 update && fetch; }; then
      tail -n 20 "$work/log" >&2
      echo "set-up: apt-get could not download prometheus and prometheus-alertmanager" >&2
      exit 1
    fi
    rm -rf $folder $folder.new
    for package in "$work"/*.deb; do dpkg-deb --extract "$package" $folder.new; done
    mv $folder.new $folder
    rm -rf "$work"
  fi
  # Debian's Alertmanager reads its templates there and nowhere else.
  [ -e /$templates/default.tmpl ] || $as_root /usr/bin/install -D -m 644 -t /$templates $folder/$templates/*.tmpl
}

# A Redfish service of other hands (OpenStack's), in an environment of its own: what it needs is none of ours.
make_sushy() {
  local folder=.sushy
  cmp -s tests/sushy.lock $folder/lock && return
  echo "set-up: installing sushy-tools (tests/sushy.lock) into $folder" >&2
  rm -rf $folder
  python3 -m venv $folder
  $folder/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r tests/sushy.lock
  cp tests/sushy.lock $folder/lock
}

case "${1:-demo}" in
  test | monitoring) unpack_monitoring ;;
esac

# What tests need must not run on this machine: no package starts a service while it is installed.
policy=/usr/sbin/policy-rc.d
without_services() { # COMMAND…
  if [ -e $policy ]; then "$@"; return; fi
  printf '#!/bin/sh\nexit 101\n' | $as_root tee $policy >/dev/null
  $as_root chmod 755 $policy
  trap '$as_root rm -f $policy' EXIT
  "$@"
  $as_root rm -f $policy
  trap - EXIT
}

missing=()
for package in $packages; do
  dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  if [ "${1:-demo}" = test ]; then without_services install "${missing[@]}"; else install "${missing[@]}"; fi
fi

# The lab's igb devices need QEMU 8. Debian 12 has a newer one in backports, on the mirror that this machine uses already.
backports=bookworm-backports
if [ "${1:-demo}" = lab ] && dpkg --compare-versions "$(dpkg-query -W -f '${Version}' qemu-system-x86)" lt 1:8; then
  if ! apt-get indextargets --format '$(RELEASE)' | grep -qx $backports; then
    $as_root apt-get -qq update
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' 'Label: Debian' | head -n 1)
    [ -n "$mirror" ] || { echo "set-up: no source of Debian 12 in this machine's apt; add $backports by hand" >&2; exit 1; }
    printf '%s\n' 'Types: deb' "URIs: $mirror" "Suites: $backports" 'Components: main' \
      'Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg' |
      $as_root tee /etc/apt/sources.list.d/$backports.sources >/dev/null
  fi
  install -t $backports qemu-system-x86 qemu-utils
fi

[ "${1:-demo}" != test ] || make_sushy
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
