#!/bin/bash
# Makes the lab's box if its recipe is new, and prints its folder. In it: id_ed25519 (the key of gpuadm and root), vagrant/
# (a VAGRANT_HOME with the box in it) and images/ (for libvirt, which keeps a copy of the box there).
# Usage: box.sh   (as root)
#
# .lab/base-<hash> is what Debian gives and lives as long as tests/lab/box is the same; .lab/box-<hash> has our modules too.
set -euo pipefail
cd "$(dirname "$0")/../.."
recipe=$PWD/tests/lab/box
modules=$PWD/host-setup/roles/lab_devices/files/modules
say() { echo "lab: $*" >&2; }

hash_of() { find "$@" -type f -print0 2>/dev/null | sort -z | xargs -0 sha256sum | sha256sum | cut -c1-12; }

make_in() { # PATH COMMAND…: the command fills a folder, which gets its name when it is whole
  local path=$1 making=$1.making
  shift
  rm -rf --one-file-system "$making" && mkdir "$making"
  "$@" "$making" >&2
  mv "$making" "$path"
}

make_box() { # BASE FOLDER
  mkdir "$2/parts" "$2/vagrant" "$2/images"
  "$recipe/modules.sh" "$1" "$modules"
  "$recipe/disk.sh" "$1" "$2/parts/box.img"
  echo '{"provider": "libvirt", "format": "qcow2", "virtual_size": 6}' >"$2/parts/metadata.json"
  tar -C "$2/parts" -cf "$2/lab.box" metadata.json box.img
  VAGRANT_CWD="$2" VAGRANT_HOME="$2/vagrant" vagrant box add --name vgpumgr/lab --provider libvirt "$2/lab.box"
  rm -r "$2/parts" "$2/lab.box"
  cp "$1/id_ed25519" "$2/"
  chmod 711 "$2" "$2/images"
}

[ "$(id -u)" -eq 0 ] || { say "the lab needs root"; exit 1; }
mkdir -p .lab
exec 9>.lab/box.lock
flock 9
base=$PWD/.lab/base-$(cd tests/lab && hash_of box)
box=$PWD/.lab/box-$(cd tests/lab && hash_of box "$modules")
if [ ! -d "$base" ]; then
  say "fetching what the box is made of, once per recipe: about 1 minute"
  make_in "$base" "$recipe/base.sh"
fi
if [ ! -d "$box" ]; then
  say "making the box: about half a minute"
  make_in "$box" make_box "$base"
fi
in_use=$(cat .lab/run/box 2>/dev/null || true)
for old in "$PWD"/.lab/base-* "$PWD"/.lab/box-*; do
  case $old in "$base" | "$box" | "$in_use") ;; *) rm -rf --one-file-system "$old" ;; esac
done
echo "$box"
