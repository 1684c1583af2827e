#!/bin/bash
# Puts the sample drivers for mediated devices of the Linux source (samples/vfio-mdev) into BUILDER/samples.
# Usage: source.sh BUILDER   (a customize hook of mmdebstrap, whose apt configuration it uses)
set -euo pipefail

release=$(ls "$1/lib/modules")
package=linux-source-$(cut -d. -f1,2 <<<"$release")
mkdir "$1/samples"
cd "$1/samples"
APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -qq -o APT::Sandbox::User=root download "$package"
dpkg-deb --fsys-tarfile "$package"_*.deb | tar -xO "./usr/src/$package.tar.xz" |
  tar -xJ --strip-components=3 "$package/samples/vfio-mdev"
rm "$package"_*.deb
