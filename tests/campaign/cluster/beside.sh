# beside.sh KEPT COMMAND...: starts a cluster of two nodes and, when they are ready, runs a command; all end with it.
# The control plane is in this network namespace, each node in one of its own, joined by a bridge; pods' networks are routed.
set -e
kept=$1
shift
here=$PWD/tests/campaign/cluster
export PATH="$kept/bin:$kept/up/usr/bin:$kept/up/usr/sbin:$kept/up/bin:$PATH"
run=$kept/run
rm -rf "$run"
mkdir -p "$run/log"
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
ip link set lo up
ip link add nodes type bridge
ip addr add 10.44.0.1/24 dev nodes
ip link set nodes up

openssl genrsa -out "$run/sa.key" 2048 2>/dev/null
echo 'sesame,admin,1,"system:masters"' >"$run/tokens.csv"
kubeconfig() {
    cat <<END
{"apiVersion": "v1", "kind": "Config", "current-context": "c",
 "clusters": [{"name": "k", "cluster": {"server": "https://10.44.0.1:6443", "certificate-authority": "$run/certs/apiserver.crt"}}],
 "users": [{"name": "u", "user": {"token": "sesame"}}],
 "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}]}
END
}
kubeconfig >"$run/kubeconfig"
export KUBECONFIG=$run/kubeconfig

# Groups of pods that the scheduler keeps in one domain, which Kubernetes 1.37 has but does not use by itself.
gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true
etcd --data-dir "$run/etcd" --unsafe-no-fsync >"$run/log/etcd" 2>&1 &
kube-apiserver --etcd-servers=http://127.0.0.1:2379 --cert-dir="$run/certs" --bind-address=10.44.0.1 \
    --advertise-address=10.44.0.1 --secure-port=6443 --service-cluster-ip-range=10.96.0.0/16 \
    --service-account-issuer=https://gavotte.test --service-account-key-file="$run/sa.key" \
    --service-account-signing-key-file="$run/sa.key" --token-auth-file="$run/tokens.csv" --authorization-mode=RBAC \
    --kubelet-preferred-address-types=InternalIP --disable-admission-plugins=ServiceAccount \
    --feature-gates=$gates --runtime-config=scheduling.k8s.io/v1beta1=true >"$run/log/apiserver" 2>&1 &
ask() {
    curl -sk --max-time 5 -H 'Authorization: Bearer sesame' "https://10.44.0.1:6443$1"
}
until_so() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || { tail -n 5 "$run"/log/* >&2; exit 1; }
        sleep 0.5
    done
}
is_up() { [ "$(ask /readyz)" = ok ]; }
until_so is_up
kube-controller-manager --kubeconfig="$KUBECONFIG" --leader-elect=false --secure-port=0 \
    --feature-gates=$gates \
    --controllers=daemonset-controller,garbage-collector-controller,node-lifecycle-controller,namespace-controller,podgroup-protection-controller \
    >"$run/log/controllers" 2>&1 &
kube-scheduler --kubeconfig="$KUBECONFIG" --leader-elect=false --secure-port=0 --feature-gates=$gates >"$run/log/scheduler" 2>&1 &
for number in 1 2; do
    ip link add "node$number" type veth peer name uplink
    ip link set "node$number" master nodes up
    unshare -nmu sh "$here/node.sh" "$kept" "$number" >"$run/log/node$number" 2>&1 &
    node=$!
    # The process is in our namespace until it has made its own.
    is_apart() { [ "$(readlink /proc/$node/ns/net)" != "$(readlink /proc/self/ns/net)" ]; }
    until_so is_apart
    ip link set uplink netns $node
    # A controller here reaches the pods.
    ip route add "10.45.$number.0/24" via "10.44.0.1$number"
done
are_ready() { [ "$(ask /api/v1/nodes | grep -o '"reason": *"KubeletReady"' | wc -l)" = 2 ]; }
until_so are_ready
status=0
"$@" || status=$?
exit $status
