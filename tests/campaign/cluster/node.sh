# node.sh KEPT NUMBER: one node, in namespaces of its own: containerd and a kubelet
set -e
kept=$1
number=$2
name=node$number
run=$kept/run/$name
here=$PWD/tests/campaign/cluster
mkdir -p "$run/kubelet" "$run/cni"
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
cat >"$run/cni/pods.conflist" <<END
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "pods", "isGateway": true,
   "ipam": {"type": "host-local", "dataDir": "$run/addresses", "ranges": [[{"subnet": "10.45.$number.0/24"}]],
            "routes": [{"dst": "0.0.0.0/0"}]}}]}
END
cat >"$run/containerd.toml" <<END
version = 2
root = "$run/containerd"
state = "/run/containerd"
[grpc]
address = "/run/c.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "gavotte.test/pause:1"
# If even root may not lower the score, as in many containers, pods get this process's score.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "$kept/up/usr/lib/cni"
conf_dir = "$run/cni"
END
containerd -c "$run/containerd.toml" &
tries=0
until ctr -a /run/c.sock version >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || exit 1
    sleep 0.3
done
for image in "$kept/pause.tar" "$kept/agent.tar" "$kept"/dist/*.oci.tar; do
    ctr -a /run/c.sock -n k8s.io images import "$image"
done
cat >"$run/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 10.44.0.1$number
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix:///run/c.sock
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
localStorageCapacityIsolation: false
makeIPTablesUtilChains: false
evictionHard: {memory.available: "0%", nodefs.available: "0%", imagefs.available: "0%", nodefs.inodesFree: "0%"}
nodeStatusUpdateFrequency: 2s
syncFrequency: 1s
cgroupRoot: /gavotte-pods
END
exec kubelet --config="$run/kubelet.yaml" --kubeconfig="$KUBECONFIG" --root-dir="$run/kubelet" --cert-dir="$run/pki" \
    --hostname-override="$name" --node-ip="10.44.0.1$number" --node-labels="topology.kubernetes.io/zone=zone$number"
