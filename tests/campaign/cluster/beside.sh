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

sh "$here/control.sh" "$kept" "$run" 10.44.0.1 &
export KUBECONFIG=$run/kubeconfig
until_so() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || { tail -n 5 "$run"/log/* >&2; exit 1; }
        sleep 0.5
    done
}
until_so test -e "$run/ready"
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
nodes() { curl -sk --max-time 5 -H "@$run/header" https://10.44.0.1:6443/api/v1/nodes; }
are_ready() { [ "$(nodes | grep -o '"reason": *"KubeletReady"' | wc -l)" = 2 ]; }
until_so are_ready
status=0
"$@" || status=$?
exit $status
