#!/bin/bash
# The first process of the lab's namespaces: libvirtd with files, network and processes of its own. All in here ends with it.
# Usage: unshare --mount --net --pid --fork --kill-child --propagation private namespaces.sh RUN_FOLDER BOX_FOLDER
set -euo pipefail
run=$1 box=$2

read -r pid _ </proc/self/stat # as the machine counts: /proc is still its own
mount -t proc proc /proc
ip link set lo up

mkdir -p "$run"/{etc,lib/images,log}
mkdir -p /run/libvirt
mount -t tmpfs tmpfs /run/libvirt
mount --bind "$run/etc" /etc/libvirt
mount --bind "$run/lib" /var/lib/libvirt
mount --bind "$run/log" /var/log/libvirt
mount --bind "$box/images" /var/lib/libvirt/images
cat >/etc/libvirt/qemu.conf <<'CONF'
user = "root"
group = "root"
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
CONF
echo 'auth_unix_rw = "none"' >/etc/libvirt/libvirtd.conf
# A lab that ended without notice leaves its disks.
find /var/lib/libvirt/images -type f ! -name '*_box.img' -delete

echo "$pid" >"$run/pid"
libvirtd --pid-file /run/libvirt/libvirtd.pid & # not exec: bash takes in what QEMU's own start leaves behind
wait $!
