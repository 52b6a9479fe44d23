#!/usr/bin/env bash
# Proves ./run on a fresh system without a container engine: debootstraps a minimal Debian 12 or Ubuntu
# 24.04 into a folder, puts the committed tree in it, and runs a command there, in which ./run installs
# everything itself. Only /proc, /dev and /etc/resolv.conf come from the host. Needs root, debootstrap
# and unshare.
#
# usage: clean_root.sh <bookworm|noble> <folder> [mirror] [command]
#   mirror   default http://deb.debian.org/debian or http://archive.ubuntu.com/ubuntu
#   command  default "./run test && ./run train"; the folder is kept, so a second call starts warm
set -euo pipefail
suite=${1:?usage: clean_root.sh <bookworm|noble> <folder> [mirror] [command]}
root=${2:?usage: clean_root.sh <bookworm|noble> <folder> [mirror] [command]}
command=${4:-./run test && ./run train}
case $suite in
  bookworm)
    mirror=${3:-http://deb.debian.org/debian}
    script=bookworm components=main
    keyring=${KEYRING:-/usr/share/keyrings/debian-archive-keyring.gpg}
    ;;
  noble) # debootstrap's Ubuntu suites all share one script, which old versions know by an older name
    mirror=${3:-http://archive.ubuntu.com/ubuntu}
    script=gutsy components=main,universe
    keyring=${KEYRING:-/usr/share/keyrings/ubuntu-archive-keyring.gpg}
    ;;
  *) echo "unknown suite: $suite" >&2; exit 1 ;;
esac
[ "$(id -u)" = 0 ] || { echo "clean_root.sh: needs root, for chroot" >&2; exit 1; }
[ -r "$keyring" ] || { echo "clean_root.sh: $keyring is missing; KEYRING=<file> names another" >&2; exit 1; }
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

if [ ! -e "$root/etc/os-release" ]; then
  debootstrap --variant=minbase --components=$components --keyring="$keyring" \
    "$suite" "$root" "$mirror" "/usr/share/debootstrap/scripts/$script"
fi
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root/stator"
git -C "$tree" archive HEAD | tar -x -C "$root/stator"

# A mount and process namespace of its own, so that nothing stays mounted or running afterwards.
unshare --mount --pid --fork --kill-child bash -euc '
  mount --bind /dev "$1/dev"
  mount -t proc proc "$1/proc"
  exec chroot "$1" /usr/bin/env -i HOME=/root TERM=dumb LANG=C.UTF-8 \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin /bin/bash -c "cd /stator && $2"
' clean_root "$root" "$command"
