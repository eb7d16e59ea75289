#!/usr/bin/env bash
# Process 1 of a node, in namespaces of its own: everything that happens here is gone when it is
# killed, containers and mounts included. Reads what it needs from its arguments:
#
#   node_init.sh NODE FOLDER ADDRESS/BITS GATEWAY KUBELET GPU_PLUGIN GPUS
#
# FOLDER holds the node's disk and its configuration, written by node.py.
set -euo pipefail
readonly node=$1 folder=$2 address=$3 gateway=$4 kubelet=$5 gpu_plugin=$6 gpus=$7
export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

hostname "$node"
mount --make-rshared /

# Folders whose place is fixed in the programs. They need not exist on this machine, so /var/lib
# becomes a folder of ours in which everything that was there is mounted again.
mkdir -p "$folder/var-lib" "$folder/kubelet"
mount -t tmpfs tmpfs "$folder/var-lib"
mkdir -p "$folder"/var-lib/{kubelet,cni}
for existing in /var/lib/*/; do
  name=$(basename "$existing")
  case $name in kubelet | cni) continue ;; esac
  mkdir "$folder/var-lib/$name"
  mount --rbind "$existing" "$folder/var-lib/$name"
done
mount --rbind "$folder/var-lib" /var/lib
mount --bind "$folder/kubelet" /var/lib/kubelet
mount --make-rshared /var/lib/kubelet
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/log
mkdir -p /run/lock

# The kubelet sets these for the whole machine; let it believe it did.
for tunable in vm/overcommit_memory kernel/panic kernel/panic_on_oops; do
  believed=$folder/${tunable//\//.}
  cat "/proc/sys/$tunable" >"$believed"
  mount --bind "$believed" "/proc/sys/$tunable"
done

# The uplink and all pods are ports of one bridge. Its own address stays when they come and go.
until ip link show eth0 >"$folder/uplink.log" 2>&1; do read -rt 0.02 <> <(:) || true; done
ip link set lo up
IFS=. read -ra octets <<<"${address%/*}"
hardware_address=$(printf "02:4c:%02x:%02x:%02x:%02x" "${octets[@]}")
ip link add cni0 address "$hardware_address" type bridge
ip address add "$address" dev cni0
ip link set cni0 up
ip link set eth0 master cni0 up
ip route add default via "$gateway"

# Runs a program as a service manager does: again when it has ended.
keep() {
  local name=$1
  shift
  while :; do
    "$@" >>"$folder/$name.log" 2>&1 || true
    read -rt 0.5 <> <(:) || true
  done
}

keep containerd containerd --config "$folder/containerd.toml" &
keep kubelet "$kubelet" --config="$folder/kubelet.json" --kubeconfig="$folder/kubeconfig" \
  --hostname-override="$node" --node-ip="${address%/*}" --root-dir=/var/lib/kubelet --v=1 &
if [ "$gpus" -gt 0 ]; then
  keep gpu-plugin "$gpu_plugin" -devices "$gpus" -node "$node" -folder "$folder/gpu" &
fi
while :; do wait -n || true; done # also takes in orphans
