# kubelet.sh KEPT FOLDER NAME ADDRESS PODS LABELS IMAGE.tar...: containerd and a kubelet of one node, until they are killed.
# The caller has made the namespaces, with a /run of the node's own, and `KUBECONFIG` names the cluster.
set -e
kept=$1
run=$2
name=$3
address=$4
pods=$5
labels=$6
shift 6
mkdir -p "$run/kubelet" "$run/cni"
cat >"$run/cni/pods.conflist" <<END
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "pods", "isGateway": true,
   "ipam": {"type": "host-local", "dataDir": "$run/addresses", "ranges": [[{"subnet": "$pods"}]],
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
for image; do
    ctr -a /run/c.sock -n k8s.io images import "$image"
done
cat >"$run/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $address
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
    --hostname-override="$name" --node-ip="$address" --node-labels="$labels"
