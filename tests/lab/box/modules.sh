#!/bin/bash
# Builds kernel modules for the box and installs them in its tree: the samples of the Linux source, and all that lies in SOURCES.
# Usage: modules.sh BASE SOURCES   (BASE was made by base.sh; SOURCES need not be there)
set -euo pipefail

base=$1 sources=$2
release=$(ls "$base/builder/lib/modules")
installed=$base/tree/usr/lib/modules/$release/updates
rm -rf "$installed" "$base/builder/modules"
mkdir -p "$installed" "$base/builder/modules"

build() { # FOLDER
  cp -r "$1" "$base/builder/modules/"
  local built
  built=modules/$(basename "$1")
  chroot "$base/builder" make -s -j2 -C "/lib/modules/$release/build" "M=/$built" modules "${@:2}" >&2
  install -m 644 -t "$installed" "$base/builder/$built"/*.ko
}

build "$base/builder/samples" CONFIG_SAMPLE_VFIO_MDEV_{MBOCHS,MDPY,MTTY}=m
[ ! -d "$sources" ] || build "$sources"
chroot "$base/tree" depmod "$release"
