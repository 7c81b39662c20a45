# control.sh KEPT FOLDER ADDRESS: etcd, API server, controllers and scheduler in this network namespace, until they are killed.
# FOLDER gets `kubeconfig`, `header` for curl, `log/`, and `ready` when all have started.
set -e
kept=$1
run=$2
address=$3
export PATH="$kept/bin:$kept/up/usr/bin:$kept/up/usr/sbin:$kept/up/bin:$PATH"
mkdir -p "$run/log"
token=$(openssl rand -hex 16)
umask 077
openssl genrsa -out "$run/sa.key" 2048 2>/dev/null
echo "$token,admin,1,\"system:masters\"" >"$run/tokens.csv"
echo "Authorization: Bearer $token" >"$run/header"
cat >"$run/kubeconfig" <<END
{"apiVersion": "v1", "kind": "Config", "current-context": "c",
 "clusters": [{"name": "k", "cluster": {"server": "https://$address:6443", "certificate-authority": "$run/certs/apiserver.crt"}}],
 "users": [{"name": "u", "user": {"token": "$token"}}],
 "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}]}
END
umask 022

# Groups of pods that the scheduler keeps in one domain, which Kubernetes 1.37 has but does not use by itself.
gates=--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true
etcd --data-dir "$run/etcd" --unsafe-no-fsync >"$run/log/etcd" 2>&1 &
kube-apiserver --etcd-servers=http://127.0.0.1:2379 --cert-dir="$run/certs" --bind-address="$address" \
    --advertise-address="$address" --secure-port=6443 --service-cluster-ip-range=10.96.0.0/16 \
    --service-account-issuer=https://gavotte.test --service-account-key-file="$run/sa.key" \
    --service-account-signing-key-file="$run/sa.key" --token-auth-file="$run/tokens.csv" --authorization-mode=RBAC \
    --kubelet-preferred-address-types=InternalIP --disable-admission-plugins=ServiceAccount \
    $gates --runtime-config=scheduling.k8s.io/v1beta1=true >"$run/log/apiserver" 2>&1 &
tries=0
until [ "$(curl -sk --max-time 5 -H "@$run/header" "https://$address:6443/readyz")" = ok ]; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { tail -n 5 "$run"/log/* >&2; exit 1; }
    sleep 0.5
done
common="--kubeconfig=$run/kubeconfig --leader-elect=false --secure-port=0 $gates"
controllers=''
for kind in daemonset garbage-collector job namespace node-lifecycle podgroup-protection; do
    controllers="$controllers,$kind-controller"
done
kube-controller-manager $common --controllers="${controllers#,}" >"$run/log/controllers" 2>&1 &
kube-scheduler $common >"$run/log/scheduler" 2>&1 &
touch "$run/ready"
wait
