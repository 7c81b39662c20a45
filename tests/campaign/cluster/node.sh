# node.sh KEPT NUMBER: one node, in namespaces of its own
set -e
kept=$1
number=$2
name=node$number
run=$kept/run/$name
here=$PWD/tests/campaign/cluster
hostname "$name"
mount -t tmpfs tmpfs /run
mkdir -p /run/netns
until ip link show uplink >/dev/null 2>&1; do sleep 0.1; done
ip link set lo up
ip addr add "10.44.0.1$number/24" dev uplink
ip link set uplink up
ip route add default via 10.44.0.1
for other in 1 2; do
    [ $other = "$number" ] || ip route add "10.45.$other.0/24" via "10.44.0.1$other"
done
echo 1 >/proc/sys/net/ipv4/ip_forward
exec sh "$here/kubelet.sh" "$kept" "$run" "$name" "10.44.0.1$number" "10.45.$number.0/24" "topology.kubernetes.io/zone=zone$number" \
    "$kept/pause.tar" "$kept/agent.tar" "$kept"/dist/*.oci.tar
