#!/bin/bash
# Builds the lab box into an empty directory: disk.img, vmlinuz, initrd.img and the keys to log in with.
# Usage: build.sh DIRECTORY   (as root; needs tests/lab/packages.txt; about 3 GiB of scratch space)
#
# The packages come from the Debian mirror that this machine's own apt uses.
set -euo pipefail

recipe=$(cd "$(dirname "$0")" && pwd)
out=$(realpath "$1")
suite=trixie
disk_size=4G
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

say() { echo "lab box: $*" >&2; }

machines_mirror() { apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1; }
mirror=$(machines_mirror)
[ -n "$mirror" ] || { apt-get -qq update; mirror=$(machines_mirror); }
[ -n "$mirror" ] || { say "no Debian mirror in this machine's apt sources"; exit 1; }

scratch=$(mktemp -d "${TMPDIR:-/var/tmp}/vgpumgr-box.XXXXXX")
trap 'rm -rf --one-file-system "$scratch"' EXIT

debian_tree() { # TREE PACKAGES [mmdebstrap options…]
  local tree=$1 packages=$2
  shift 2
  mmdebstrap --quiet --mode=root --variant=apt --keyring="$keyring" --include="$packages" "$@" \
    "$suite" "$tree" "deb $mirror $suite main"
}

ssh-keygen -q -t ed25519 -N '' -C lab -f "$out/id_ed25519"

say "fetching Debian $suite"
packages=$(grep -v '^#' "$recipe/packages.txt" | paste -sd, -)
debian_tree "$scratch/tree" "$packages" \
  --essential-hook="tar -C '$recipe/files' -c . | tar -C \"\$1\" -x --no-same-owner" \
  --customize-hook="'$recipe/customize.sh' \"\$1\" '$out/id_ed25519.pub'"
cp "$scratch/tree/etc/ssh/ssh_host_ed25519_key.pub" "$out/host_key.pub"

say "building the kernel's mdev sample drivers"
release=$(basename "$scratch"/tree/lib/modules/*)
debian_tree "$scratch/builder" linux-headers-amd64,make --customize-hook="mkdir \"\$1/build\" && cd \"\$1/build\" && \
  APT_CONFIG=\"\$MMDEBSTRAP_APT_CONFIG\" apt-get -qq download 'linux-source-${release%.*}'"
"$recipe/modules.sh" "$scratch/builder" "$scratch/tree" "$release"

say "making the disk"
cp -L "$scratch/tree/vmlinuz" "$out/vmlinuz"
cp -L "$scratch/tree/initrd.img" "$out/initrd.img"
chmod 644 "$out/vmlinuz" "$out/initrd.img"
mke2fs -q -t ext4 -L lab -d "$scratch/tree" "$out/disk.img" "$disk_size"
