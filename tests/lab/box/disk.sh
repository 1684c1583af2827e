#!/bin/bash
# Makes a disk that boots by itself under a BIOS from BASE/tree: an MBR, GRUB in the gap behind it, one ext4 partition.
# Usage: disk.sh BASE DISK   (writes a qcow2 image; no loop device is used)
set -euo pipefail

tree=$1/tree disk=$2
raw=$disk.raw
partition_sector=2048 sector=512
trap 'rm -f "$raw"' EXIT

truncate --size=6G "$raw"
sfdisk --quiet "$raw" <<<"label: dos
start=$partition_sector, type=83, bootable"
# GRUB does not read every feature that newer versions of mke2fs turn on.
mke2fs -q -t ext4 -L lab -m 0 -O ^metadata_csum_seed,^orphan_file -d "$tree" \
  -E "offset=$((partition_sector * sector))" "$raw" "$((6 * 1024 - 1))M"

chroot "$tree" grub-mkimage --format=i386-pc --output=/boot/grub/i386-pc/core.img --prefix='(hd0,msdos1)/boot/grub' \
  biosdisk part_msdos ext2 normal search_label linux
write() { dd if="$tree/$1" of="$raw" bs="$2" seek="$3" count="$4" conv=notrunc status=none; }
write usr/lib/grub/i386-pc/boot.img 440 0 1 # the code; the partition table behind it stays
write boot/grub/i386-pc/core.img $sector 1 $((partition_sector - 1))

qemu-img convert -q -O qcow2 "$raw" "$disk"
