#!/bin/bash
# Makes a disk like Debian's own cloud images that boots fast under emulation: MBR, GRUB, one ext4 partition.
# Usage: image.sh 12|13 DISK   (as root; writes a qcow2 image; no loop device is used)
#
# The packages come from the Debian mirror that this machine's own apt uses.
set -euo pipefail

recipe=$(cd "$(dirname "$0")" && pwd)
disk=$2
case "$1" in
  12) suite=bookworm ;;
  13) suite=trixie ;;
  *) echo "usage: image.sh 12|13 DISK" >&2; exit 2 ;;
esac
work=$(mktemp -d "${TMPDIR:-/var/tmp}/vgpumgr-guest.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT

machines_mirror() { apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1; }
mirror=$(machines_mirror)
[ -n "$mirror" ] || { apt-get -qq update; mirror=$(machines_mirror); }
[ -n "$mirror" ] || { echo "guest image: no Debian mirror in this machine's apt sources" >&2; exit 1; }

mmdebstrap --quiet --mode=root --variant=minbase --keyring=/usr/share/keyrings/debian-archive-keyring.gpg \
  --include="$(grep -v '^#' "$recipe/packages.txt" | paste -sd, -)" \
  --essential-hook="tar -C '$recipe/files' -c . | tar -C \"\$1\" -x --no-same-owner" \
  --customize-hook="'$recipe/customize.sh' \"\$1\"" \
  --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  "$suite" "$work/tree" "deb $mirror $suite main"

megabytes=2560 partition_sector=2048 sector=512 raw=$work/raw
truncate --size="${megabytes}M" "$raw"
sfdisk --quiet "$raw" <<<"label: dos
start=$partition_sector, type=83, bootable"
# GRUB does not read every feature that newer versions of mke2fs turn on.
mke2fs -q -t ext4 -L guest -m 0 -O ^metadata_csum_seed,^orphan_file -d "$work/tree" \
  -E "offset=$((partition_sector * sector))" "$raw" "$((megabytes - 1))M"
chroot "$work/tree" grub-mkimage --format=i386-pc --output=/core.img --prefix='(hd0,msdos1)/boot/grub' \
  biosdisk part_msdos ext2 normal search_label linux
write() { dd if="$work/tree/$1" of="$raw" bs="$2" seek="$3" count="$4" conv=notrunc status=none; }
write usr/lib/grub/i386-pc/boot.img 440 0 1 # the code; the partition table behind it stays
write core.img $sector 1 $((partition_sector - 1))
qemu-img convert -q -O qcow2 "$raw" "$disk"
