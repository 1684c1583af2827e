#!/bin/bash
# What makes a Debian tree a guest's disk: files of the boot loader, and no work that no test looks at.
# Usage: customize.sh TREE   (a customize hook of mmdebstrap)
set -euo pipefail
tree=$1

rm -f "$tree"/etc/ssh/ssh_host_* # each guest makes its own
: >"$tree/etc/machine-id"
rm -f "$tree/etc/hostname"
chroot "$tree" sh -c 'echo LANG=C.UTF-8 >/etc/default/locale' # without it cloud-init makes American English, in vain
touch "$tree/etc/.updated" "$tree/var/.updated" # nothing to bring up to date at the first boot
mkdir -p "$tree/boot/grub/i386-pc"
cp "$tree"/usr/lib/grub/i386-pc/*.{mod,lst} "$tree/boot/grub/i386-pc/"
chroot "$tree" systemctl --quiet enable systemd-networkd
chroot "$tree" systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
  e2scrub_reap.service fstrim.timer getty@tty1.service
