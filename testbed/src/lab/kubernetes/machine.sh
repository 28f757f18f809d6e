#!/usr/bin/env bash
# The first process of a machine that runs a kubelet. It is started in namespaces of its own (network,
# mounts, processes, host name, IPC), makes the machine's file system, and ends when it is killed.
#
#   machine.sh NAME DIRECTORY        in DIRECTORY: groups (what to join), disk (what outlives a reboot);
#                                    it writes pid, and ready when the machine may be used
#   machine.sh --within COMMAND ...  on the machine: runs a command in its control groups

set -euo pipefail

if [[ $1 == --within ]]; then
    groups=(/sys/fs/cgroup/*/)
    [[ ! -e /sys/fs/cgroup/first ]] || groups=(/sys/fs/cgroup/first/)
    for group in "${groups[@]}"; do
        echo 0 >"$group/cgroup.procs"
    done
    exec "${@:2}"
fi

name=$1 dir=$2

if [[ ${3:-} != joined ]]; then
    # As whoever started it sees this process; in what follows it is number 1.
    read -r pid _ </proc/self/stat
    while read -r group _; do
        echo 0 >"$group/cgroup.procs"
    done <"$dir/groups"
    echo "$pid" >"$dir/pid"
    exec unshare --cgroup "$0" "$name" "$dir" joined
fi

mount --make-rprivate /
# Everything of the real machine is there, and nothing is written to it.
mkdir -p "$dir"/disk/{upper,work,containerd} "$dir/root"
root=$dir/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/disk/upper,workdir=$dir/disk/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t bpf bpf "$root/sys/fs/bpf"
mount --rbind /dev "$root/dev"
for place in /run /tmp /sys/fs/cgroup; do
    mount -t tmpfs tmpfs "$root$place"
done
while read -r _ type options place; do
    mkdir -p "$root/sys/fs/cgroup/$place"
    mount -t "$type" -o "$options" none "$root/sys/fs/cgroup/$place"
done <"$dir/groups"
# With version 2 alone, a group that gives controllers to others has no processes itself.
if [[ -e $root/sys/fs/cgroup/cgroup.controllers ]]; then
    mkdir "$root/sys/fs/cgroup/first"
    echo 0 >"$root/sys/fs/cgroup/first/cgroup.procs"
    sed 's/\(^\| \)/ +/g' "$root/sys/fs/cgroup/cgroup.controllers" >"$root/sys/fs/cgroup/cgroup.subtree_control"
fi
# What a kubelet would set is the kernel's own, of all machines: it finds that it is set.
while IFS='=' read -r setting value; do
    file=$root/run/${setting//\//.}
    echo "$value" >"$file"
    mount --bind "$file" "$root/proc/sys/$setting"
done <<'SETTINGS'
vm/overcommit_memory=1
vm/panic_on_oom=0
kernel/panic=10
kernel/panic_on_oops=1
kernel/keys/root_maxkeys=1000000
kernel/keys/root_maxbytes=25000000
SETTINGS
# A runtime's layers cannot lie on an overlay.
mkdir -p "$root/var/lib/containerd" "$root/lab" "$root/old"
mount --bind "$dir/disk/containerd" "$root/var/lib/containerd"
mount --bind "$dir" "$root/lab"
cd "$root"
pivot_root . old
cd /
umount -l /old
# As systemd has it: what a pod mounts for the machine is seen there.
mount --make-rshared /
hostname "$name"
echo 1 >/proc/sys/net/ipv4/ip_forward
mkdir -p /run/netns /opt/cni/bin /etc/cni/net.d
if [[ ! -e /lab/disk/first ]]; then
    rm -f /etc/cni/net.d/*
    cp "$(ls /usr/lib/cni/loopback /opt/cni/bin/loopback 2>/dev/null | head -n 1)" /opt/cni/bin/loopback || true
    touch /lab/disk/first
fi
echo yes >/lab/ready
# Orphans of the machine are this process's, and bash waits for them.
while :; do
    sleep 1000 &
    wait $! || true
done
