#!/bin/bash
# Puts the packages of repository.txt, and all they need that the tree lacks, into TREE/srv/packages as a flat apt repository.
# Usage: repository.sh TREE   (inside a hook of mmdebstrap, whose apt configuration it uses)
set -euo pipefail

list=$(cd "$(dirname "$0")" && pwd)/repository.txt
packages=$1/srv/packages
mkdir -p "$packages/partial"
grep -v '^#' "$list" | while read -r -a set; do
  APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -qq -y --no-install-recommends --download-only \
    -o APT::Sandbox::User=root -o Dir::Cache::archives="$packages" install "${set[@]}" </dev/null
done
rm -rf "$packages/partial" "$packages/lock"

cd "$packages"
for file in *.deb; do
  dpkg-deb --field "$file"
  printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$file" "$(stat -c %s "$file")" "$(sha256sum <"$file" | cut -d' ' -f1)"
done >Packages
