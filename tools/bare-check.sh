#!/bin/bash
# Runs make targets in a fresh clone inside a bare Debian that has only git and make: is all set-up really done by the targets?
# Usage: tools/bare-check.sh [12|13] [target…]   (as root; default: 12 demo demo test)
#
# The packages come from the mirror of this machine's apt; pip's settings and the certificates of this machine are lent to the tree.
# Only what is committed is tried: the tree gets a clone.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-12}" in
  12) suite=bookworm ;;
  13) suite=trixie ;;
  *) echo "usage: tools/bare-check.sh [12|13] [target…]" >&2; exit 2 ;;
esac
shift $(($# > 0))
targets=${*:-demo demo test}

say() { echo "bare check ($suite): $*" >&2; }

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
[ -n "$mirror" ] || { say "no Debian mirror in this machine's apt sources; run apt-get update"; exit 1; }

tree=$(mktemp -d "${TMPDIR:-/var/tmp}/vgpumgr-bare.XXXXXX")
trap 'rm -rf --one-file-system "$tree"' EXIT

say "making a Debian with git and make"
mmdebstrap --quiet --mode=root --variant=minbase --include=git,make,ca-certificates \
  --keyring=/usr/share/keyrings/debian-archive-keyring.gpg "$suite" "$tree" "deb $mirror $suite main"
git clone -q --no-hardlinks . "$tree/root/vgpumgr"

# Daemons that packages bring are not started: they would listen on this machine.
printf '#!/bin/sh\nexit 101\n' >"$tree/usr/sbin/policy-rc.d"
chmod 755 "$tree/usr/sbin/policy-rc.d"

# What this machine needs to reach its package index: certificates, pip's settings, folders these name.
install -m 644 /etc/ssl/certs/ca-certificates.crt "$tree/etc/ssl/certs/ca-certificates.crt"
[ ! -f /etc/pip.conf ] || install -m 644 /etc/pip.conf "$tree/etc/pip.conf"
lent=$({ cat /etc/pip.conf 2>/dev/null; env | grep '^PIP_'; } | grep -oE '(file://|[ =])/[^ ,]+' | sed -E 's,^(file://|[ =]),,' | sort -u || true)
export lent tree targets HOME=/root LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# Mounts and processes of their own: all is gone when the last command ends.
unshare --mount --pid --fork --kill-child bash -euo pipefail <<'INSIDE'
mount --bind "$tree" "$tree"
mount -t proc proc "$tree/proc"
mount --rbind /sys "$tree/sys"
mount --rbind /dev "$tree/dev"
mount -t tmpfs -o mode=755 tmpfs "$tree/run"
cp -L /etc/resolv.conf "$tree/etc/resolv.conf"
for folder in $lent; do
  [ -d "$folder" ] || continue
  mkdir -p "$tree$folder"
  mount --bind -o ro "$folder" "$tree$folder"
done

# The tree becomes the root of these mounts, as on a machine: in a chroot no mount namespace can be made.
cd "$tree"
mkdir -p mnt/machine
pivot_root . mnt/machine
cd /root/vgpumgr
umount --lazy /mnt/machine

failed=0
for target in $targets; do
  echo "bare check: make $target" >&2
  began=$SECONDS
  make "$target" </dev/null || failed=1
  echo "bare check: make $target took $((SECONDS - began)) s, $([ "$failed" = 0 ] && echo ok || echo FAILED)" >&2
  [ "$failed" = 0 ] || break
done
exit "$failed"
INSIDE
