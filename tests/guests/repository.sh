#!/bin/bash
# Makes a signed flat repository of stand-ins for packages: what they install are the commands and services that profiles and their checks use.
# Usage: repository.sh FOLDER   (FOLDER/key.asc is its public key)
set -euo pipefail
recipe=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
out=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for made in "$recipe"/stand_ins/*/; do
  name=$(basename "$made") tree=$work/$(basename "$made")
  cp -r "$made" "$tree"
  mkdir -p "$tree/DEBIAN"
  [ ! -d "$tree/usr/bin" ] || chmod 755 "$tree"/usr/bin/*
  depends=$(cat "$tree/depends" 2>/dev/null || true)
  rm -f "$tree/depends"
  { # as in a package of Debian a service is started when it is installed
    echo '#!/bin/sh -e'
    cat "$tree/postinst" 2>/dev/null || true
    for unit in "$tree"/usr/lib/systemd/system/*.service; do
      [ ! -e "$unit" ] || printf 'systemctl daemon-reload\nsystemctl enable --now %s\n' "$(basename "$unit")"
    done
  } >"$tree/DEBIAN/postinst"
  rm -f "$tree/postinst"
  chmod 755 "$tree/DEBIAN/postinst"
  printf 'Package: %s\nVersion: 9999\nArchitecture: all\nMaintainer: tests <tests@example.org>\n%sDescription: stand-in\n' \
    "$name" "${depends:+Depends: $depends$'\n'}" >"$tree/DEBIAN/control"
  dpkg-deb --root-owner-group -Znone --build "$tree" "$out" >/dev/null
done

cd "$out"
for file in *.deb; do
  dpkg-deb --field "$file"
  printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$file" "$(stat -c %s "$file")" "$(sha256sum <"$file" | cut -d' ' -f1)"
done >Packages
{
  printf 'Origin: stand-ins\nLabel: stand-ins\nSuite: stand-ins\nArchitectures: all amd64\nDate: %s\nSHA256:\n' "$(date -Ru)"
  printf ' %s %s Packages\n' "$(sha256sum <Packages | cut -d' ' -f1)" "$(stat -c %s Packages)"
} >Release
export GNUPGHOME=$work/gnupg
mkdir -m 700 "$GNUPGHOME"
gpg --quiet --batch --passphrase '' --quick-generate-key 'stand-ins <tests@example.org>' rsa2048 sign never 2>/dev/null
gpg --quiet --batch --clearsign --output InRelease Release
gpg --quiet --batch --armor --export >key.asc
gpgconf --kill all
