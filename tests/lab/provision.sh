#!/bin/bash
# Gives a lab host its name and its address on the private link. Vagrant would count interfaces, and igb's come first.
# Usage: provision.sh NAME MAC ADDRESS 'ADDRESS NAME'…   (on the host, as root; Vagrant runs it once)
set -euo pipefail
name=$1 mac=$2 address=$3
shift 3

hostnamectl hostname "$name"
sed -i "/^127\.0\.1\.1/d" /etc/hosts
printf '%s\n' "$@" >>/etc/hosts # libvirt and migrations find the others
printf '[Match]\nMACAddress=%s\n\n[Network]\nAddress=%s/24\nLinkLocalAddressing=no\n' "$mac" "$address" \
  >/etc/systemd/network/10-lab-link.network
systemctl --quiet enable systemd-networkd
systemctl restart systemd-networkd
