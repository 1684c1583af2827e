#!/bin/bash
# The first boots of several guests by the real cloud-init, each in an overlay of this machine's own
# root, in namespaces of its own: nothing of it is seen outside.
#
# Usage: unshare --mount --uts --pid --fork first_boot.sh FOLDER
# FOLDER/seeds/NAME/{user-data,meta-data} → FOLDER/NAME.log of cloud-init.
# FOLDER/seeds/NAME/checks.json are the checks' programs, FOLDER/NAME.checks how they ended.
# With FOLDER/seeds/NAME/offline the guest has no network, with full its /srv has no room.
# No service manager runs here: systemctl is a stand-in that knows the units of installed packages.
set -eu
folder=$1
mount --make-rprivate /
room=$(mktemp -d)
mount -t tmpfs -o size=2g room "$room"

above() { # LOWER NAME: a root over these layers
  mkdir -p "$room/$2/up" "$room/$2/work" "$room/$2/root"
  mount -t overlay overlay -o "lowerdir=$1,upperdir=$room/$2/up,workdir=$room/$2/work" "$room/$2/root"
  mount -t proc proc "$room/$2/root/proc"
  mount -t tmpfs run "$room/$2/root/run"
  mount --rbind /dev "$room/$2/root/dev"
}

above / base
base=$room/base/root
printf '#!/bin/sh\nexit 101\n' >"$base/usr/sbin/policy-rc.d"
chmod +x "$base/usr/sbin/policy-rc.d"
chroot "$base" apt-get -qq -o APT::Sandbox::User=root update >"$folder/install.log" 2>&1
chroot "$base" apt-get -y -qq --no-install-recommends -o APT::Sandbox::User=root install cloud-init \
  >>"$folder/install.log" 2>&1
cat >"$base/usr/local/bin/systemctl" <<'END'
#!/bin/sh
for unit; do :; done
[ -e "/lib/systemd/system/$unit.service" ] || { echo inactive; exit 3; }
echo active
END
cat >"$base/usr/local/bin/run-checks" <<'END'
import json, subprocess, sys
def ended(argv):
    try:
        ran = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        return [ran.returncode, ran.stdout + ran.stderr]
    except subprocess.TimeoutExpired:
        return [None, ""]
    except FileNotFoundError as error:
        return [127, str(error)]
print(json.dumps([ended(argv) for argv in json.load(sys.stdin)]))
END
chmod +x "$base/usr/local/bin/systemctl"
# What would touch the machine's own disks and network is left out.
cat >"$base/etc/cloud/cloud.cfg.d/99-test.cfg" <<'END'
datasource_list: [NoCloud]
network: {config: disabled}
growpart: {mode: "off"}
resize_rootfs: false
cloud_init_modules: [write-files, users-groups]
cloud_config_modules: [set-passwords, apt-configure, timezone, runcmd]
cloud_final_modules: [package-update-upgrade-install, write-files-deferred, scripts-user]
END

boot() { # NAME
  above "$room/base/up:/" "$1"
  root=$room/$1/root seed=$folder/seeds/$1
  mkdir -p "$root/var/lib/cloud/seed/nocloud"
  cp "$seed/user-data" "$seed/meta-data" "$root/var/lib/cloud/seed/nocloud/"
  within=(chroot "$root")
  [ ! -e "$seed/offline" ] || within=(unshare --net chroot "$root")
  if [ -e "$seed/full" ]; then
    mount -t tmpfs -o size=64k full "$root/srv"
    dd if=/dev/zero of="$root/srv/filler" bs=1k count=64 2>/dev/null || true
  fi
  for stage in "init --local" init "modules --mode=config" "modules --mode=final"; do
    # shellcheck disable=SC2086 - the stage is words
    "${within[@]}" timeout 600 cloud-init $stage >>"$folder/$1.log" 2>&1 || true
  done
  "${within[@]}" python3 /usr/local/bin/run-checks <"$seed/checks.json" >"$folder/$1.checks"
}

for seed in "$folder"/seeds/*; do
  boot "$(basename "$seed")" &
done
wait
