#!/bin/bash
# Makes a Debian tree into a lab host: the user gpuadm, its key, a host key, a storage pool, nothing that slows the boot.
# Usage: customize.sh TREE PUBLIC_KEY   (a customize hook of mmdebstrap)
set -euo pipefail

tree=$1 public_key=$2
in_tree() { chroot "$tree" "$@"; }

in_tree useradd --create-home --shell /bin/bash --groups libvirt gpuadm
for home in /home/gpuadm /root; do # root's login is for looking from outside; vgpumgr comes as gpuadm
  install -d -m 700 "$tree$home/.ssh"
  install -m 600 "$public_key" "$tree$home/.ssh/authorized_keys"
done
in_tree chown -R gpuadm:gpuadm /home/gpuadm/.ssh
chmod 440 "$tree/etc/sudoers.d/gpuadm"

rm -f "$tree"/etc/ssh/ssh_host_*
in_tree ssh-keygen -q -t ed25519 -N '' -C lab-one -f /etc/ssh/ssh_host_ed25519_key

install -d -m 711 "$tree/var/lib/libvirt/images"
install -d "$tree/etc/libvirt/storage/autostart"
ln -s ../default.xml "$tree/etc/libvirt/storage/autostart/default.xml"
rm -f "$tree/etc/libvirt/qemu/networks/autostart/default.xml"

in_tree systemctl --quiet enable systemd-networkd ssh
in_tree systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
  e2scrub_reap.service logrotate.timer libvirt-guests.service systemd-networkd-wait-online.service
rm -f "$tree/etc/apt/sources.list"
