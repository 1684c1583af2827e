#!/bin/bash
# Builds the lab's modules and the kernel's mdev samples for a kernel of this host, and installs them.
# Usage: build.sh RELEASE   (as root; needs linux-headers-RELEASE, linux-source-VERSION, make, xz-utils)
set -euo pipefail

release=$1
source=linux-source-$(cut -d. -f1,2 <<<"$release")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cp -r "$(dirname "$0")/modules" "$scratch/lab"
mkdir "$scratch/samples"
tar -xJf "/usr/src/$source.tar.xz" -C "$scratch/samples" --strip-components=3 "$source/samples/vfio-mdev"
for folder in lab samples; do
  make -s -C "/lib/modules/$release/build" "M=$scratch/$folder" modules CONFIG_SAMPLE_VFIO_MDEV_{MBOCHS,MDPY,MTTY}=m
done
install -D -m 644 -t "/usr/lib/modules/$release/updates" "$scratch"/{lab,samples}/*.ko
depmod "$release"
