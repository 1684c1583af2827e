#!/bin/bash
# Runs the Vagrantfile's lab host with a libvirtd of the lab's own, in a network that ends at this script.
# Usage: tests/lab/vagrant.sh start | exec COMMAND… | stop     (as root)
#   tests/lab/vagrant.sh start && tests/lab/vagrant.sh exec vagrant up && tests/lab/vagrant.sh exec vagrant ssh
# Needs the Debian packages of tests/lab/packages.txt and: dnsmasq-base iproute2 libvirt-daemon-system vagrant vagrant-libvirt
set -euo pipefail
cd "$(dirname "$0")/../.."
home=$PWD/.lab/vagrant
export VAGRANT_CWD=$PWD VAGRANT_HOME=$home/home VAGRANT_DOTFILE_PATH=$home/machines VAGRANT_DEFAULT_PROVIDER=libvirt

ours() { # the libvirtd we started, if it still runs
  [ -f "$home/pid" ] && grep -qsa "$home/libvirtd.conf" "/proc/$(cat "$home/pid")/cmdline"
}

inside() { nsenter --target "$(cat "$home/pid")" --mount --net "$@"; }

start() {
  local box
  box=$(python3 tests/lab/lab.py box)
  mkdir -p "$home/etc" "$home/lib"
  if [ ! -f "$box/lab.box" ]; then
    local parts=$home/parts
    mkdir -p "$parts"
    qemu-img convert -O qcow2 "$box/disk.img" "$parts/box.img"
    echo '{"provider": "libvirt", "format": "qcow2", "virtual_size": 4}' >"$parts/metadata.json"
    tar -C "$parts" -cf "$box/lab.box" metadata.json box.img
    rm -r "$parts"
  fi
  printf 'user = "root"\ngroup = "root"\nsecurity_driver = "none"\nnamespaces = []\ncgroup_controllers = []\nstdio_handler = "file"\n' >"$home/etc/qemu.conf"
  printf 'auth_unix_rw = "none"\n' >"$home/libvirtd.conf"
  setsid unshare --mount --net --propagation private bash -euo pipefail -c '
    ip link set lo up
    mount -t tmpfs tmpfs /run/libvirt
    mount --bind "$0/etc" /etc/libvirt
    mount --bind "$0/lib" /var/lib/libvirt
    exec libvirtd --config "$0/libvirtd.conf"' "$home" >"$home/libvirtd.log" 2>&1 </dev/null &
  echo $! >"$home/pid"
  for _ in $(seq 150); do
    if ours && inside virsh --quiet --connect qemu:///system list >/dev/null 2>&1; then
      inside vagrant box add --force --name vgpumgr/lab-one "$box/lab.box"
      return
    fi
    sleep 0.2
  done
  cat "$home/libvirtd.log" >&2
  return 1
}

case "${1:-}" in
  start) ours || start ;;
  exec) shift; ours || { echo "start it first: tests/lab/vagrant.sh start" >&2; exit 1; }; inside "$@" ;;
  stop) if ours; then inside vagrant destroy --force; kill "$(cat "$home/pid")"; fi ;;
  *) echo "usage: tests/lab/vagrant.sh start | exec COMMAND… | stop" >&2; exit 2 ;;
esac
