#!/bin/bash
# Fetches what the box is made of into an empty directory: tree/ (the host), builder/ (compiler, headers and the kernel's
# source, for modules) and the key to log in with.
# Usage: base.sh DIRECTORY   (as root; needs tests/lab/packages.txt; 3 GiB of space)
#
# The packages come from the Debian mirror that this machine's own apt uses.
set -euo pipefail

recipe=$(cd "$(dirname "$0")" && pwd)
out=$(realpath "$1")
suite=trixie
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

machines_mirror() { apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1; }
mirror=$(machines_mirror)
[ -n "$mirror" ] || { apt-get -qq update; mirror=$(machines_mirror); }
[ -n "$mirror" ] || { echo "lab box: no Debian mirror in this machine's apt sources" >&2; exit 1; }

debian_tree() { # TREE PACKAGES [mmdebstrap options…]
  local tree=$1 packages=$2
  shift 2
  mmdebstrap --quiet --mode=root --variant=apt --keyring="$keyring" --include="$packages" "$@" \
    "$suite" "$tree" "deb $mirror $suite main"
}

ssh-keygen -q -t ed25519 -N '' -C lab -f "$out/id_ed25519"

debian_tree "$out/builder" linux-headers-amd64,make --customize-hook="'$recipe/source.sh' \"\$1\"" &
debian_tree "$out/tree" "$(grep -v '^#' "$recipe/packages.txt" | paste -sd, -)" \
  --essential-hook="tar -C '$recipe/files' -c . | tar -C \"\$1\" -x --no-same-owner" \
  --customize-hook="'$recipe/customize.sh' \"\$1\" '$out/id_ed25519.pub'"
wait $!
