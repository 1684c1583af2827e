#!/bin/bash
# Builds the mediated-device samples of the Linux source (samples/vfio-mdev) for the box's kernel and installs them in it.
# Usage: modules.sh BUILDER_TREE BOX_TREE KERNEL_RELEASE   (BUILDER_TREE/build holds the linux-source package)
set -euo pipefail

builder=$1 tree=$2 release=$3
source_package=linux-source-${release%.*}
[ -d "$builder/lib/modules/$release/build" ] || { echo "no headers for $release in the builder" >&2; exit 1; }

dpkg-deb --fsys-tarfile "$builder/build/$source_package"_*.deb |
  tar -xO "./usr/src/$source_package.tar.xz" |
  tar -xJ -C "$builder/build" --strip-components=3 "$source_package/samples/vfio-mdev"

printf 'obj-m := mbochs.o mtty.o\n' >"$builder/build/Makefile"
chroot "$builder" make -s -C "/lib/modules/$release/build" M=/build modules
install -D -m 644 -t "$tree/lib/modules/$release/extra" "$builder"/build/{mbochs,mtty}.ko
chroot "$tree" depmod "$release"
