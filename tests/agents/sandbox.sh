#!/bin/bash
# sandbox.sh ROOT FOLDER PLACE PROGRAMS COMMAND...
#
# Runs COMMAND where it sees nothing but FOLDER (read-only, mounted at PLACE, the working directory), the system's
# libraries and programs for reading: no network, no Python, no other file of this machine. PROGRAMS is a list of
# further programs to put there (separated by ':', may be empty). ROOT is an empty folder, empty again afterwards: all
# mounts belong to this process alone. To be started by `unshare --mount --net --pid --fork --propagation private`.
set -e
root=$1 folder=$2 place=$3 programs=$4
shift 4

mount -t tmpfs none "$root"
mkdir -p "$root"/{bin,dev,etc,proc,tmp,usr} "$root$place"
ln -s ../bin "$root/usr/bin"

bind() { # read-only
  mount --bind "$1" "$2"
  mount -o remount,bind,ro "$2"
}
for libraries in /usr/lib /usr/lib64 /lib /lib64; do
  if [ -L "$libraries" ]; then
    cp -a "$libraries" "$root$libraries"
  elif [ -d "$libraries" ]; then
    mkdir -p "$root$libraries"
    bind "$libraries" "$root$libraries"
  fi
done
for device in null zero urandom; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/1 "$root/dev/stdout"
ln -s /proc/self/fd/2 "$root/dev/stderr"
mount -t proc proc "$root/proc"
bind "$folder" "$root$place"

reading='bash sh env cat tac head tail less grep egrep fgrep rg sed awk find xargs ls tree wc sort uniq cut tr nl paste
  join comm diff cmp fold expand column tee seq echo printf test expr basename dirname readlink realpath stat file du
  od xxd hexdump strings jq date true false pwd sleep timeout which'
found=()
for program in $reading; do
  at=$(type -P "$program") && found+=("$at")
done
IFS=: read -ra more <<<"$programs"
cp -L "${found[@]}" "${more[@]}" "$root/bin/"

exec chroot "$root" /bin/env -i PATH=/bin HOME=/tmp LANG=C.UTF-8 TERM=dumb \
  bash -c 'cd "$0" && exec "$@"' "$place" "$@"
