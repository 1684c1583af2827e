#!/bin/bash
# Makes a Debian tree into a bare host that boots fast: the user gpuadm, its key, a boot loader's files, a local apt repository.
# Usage: customize.sh TREE PUBLIC_KEY   (a customize hook of mmdebstrap)
set -euo pipefail

recipe=$(cd "$(dirname "$0")" && pwd)
tree=$1 public_key=$2
in_tree() { chroot "$tree" "$@"; }

in_tree useradd --create-home --shell /bin/bash --password '*' gpuadm # no password and no lock: sshd lets the key in without PAM
for home in /home/gpuadm /root; do # root's login is for looking from outside; vgpumgr comes as gpuadm
  install -d -m 700 "$tree$home/.ssh"
  install -m 600 "$public_key" "$tree$home/.ssh/authorized_keys"
done
in_tree chown -R gpuadm:gpuadm /home/gpuadm/.ssh
chmod 440 "$tree/etc/sudoers.d/gpuadm"
rm -f "$tree"/etc/ssh/ssh_host_* # each host makes its own
: >"$tree/etc/machine-id"
touch "$tree/etc/.updated" "$tree/var/.updated" # nothing to bring up to date at the first boot

mkdir -p "$tree/etc/systemd/system-generators"
ln -s /dev/null "$tree/etc/systemd/system-generators/systemd-ssh-generator" # for sockets that these machines lack

mkdir -p "$tree/boot/grub/i386-pc"
cp "$tree"/usr/lib/grub/i386-pc/*.{mod,lst} "$tree/boot/grub/i386-pc/"

"$recipe/repository.sh" "$tree"
rm -f "$tree/etc/apt/sources.list"

in_tree systemctl --quiet enable systemd-networkd ssh host-key
in_tree systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
  e2scrub_reap.service fstrim.timer getty@tty1.service grub-common.service logrotate.timer serial-getty@ttyS0.service \
  systemd-networkd-wait-online.service
