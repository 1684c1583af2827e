#!/bin/sh
# QEMU with its VFIO devices taken out; their groups are held as long as it lives, as the kernel's
# would be. A group that another QEMU holds is a failure, and is remembered: it must never happen.
left=$# fd=5
while [ "$left" -gt 0 ]; do
  word=$1
  shift
  left=$((left - 1))
  case $word in
    *'"driver":"vfio-pci"'*)
      uuid=${word##*/devices/}
      uuid=${uuid%%\"*}
      group=$(readlink "/sys/bus/mdev/devices/$uuid/iommu_group") || exit 1
      eval "exec $fd<>/dev/vfio/${group##*/}"
      if ! flock --nonblock "$fd"; then
        echo "$uuid" >> /run/emulated/held-twice
        echo "vfio $uuid: group ${group##*/} is held" >&2
        exit 1
      fi
      fd=$((fd + 1)) held=
      ;;
    -device) held=$word ;;
    *)
      set -- "$@" ${held:+"$held"} "$word"
      held=
      ;;
  esac
done
exec /run/emulated/bin/qemu "$@"
