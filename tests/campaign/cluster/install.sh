# install.sh KEPT: builds Kubernetes and our scheduler, unpacks the other programs that it needs, and makes the images of the pods
set -eu
kept=$1
here=$PWD/tests/campaign/cluster
version=v1.37.2
mkdir -p "$kept/bin" "$kept/module" "$kept/packages"
export GOPATH="$kept/go" GOCACHE="$kept/gocache" GOFLAGS='-modcacherw -mod=mod' CGO_ENABLED=0
if ! cmp -s "$here/go.mod" "$kept/module/built.mod"; then
    cp "$here/go.mod" "$kept/module/go.mod"
    stamp=k8s.io/component-base/version
    for program in kube-apiserver kube-controller-manager kube-scheduler kubelet; do
        (cd "$kept/module" && go build -ldflags "-s -w -X $stamp.gitVersion=$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=37" \
            -o "$kept/bin/" "k8s.io/kubernetes/cmd/$program")
    done
    cp "$here/go.mod" "$kept/module/built.mod"
fi
# The scheduler with our plugin, as users build it.
cat packaging/kubernetes/scheduler/go.* packaging/kubernetes/scheduler/*.go >"$kept/module/scheduler.new"
if ! cmp -s "$kept/module/scheduler.new" "$kept/module/scheduler.built"; then
    (cd packaging/kubernetes/scheduler && GOFLAGS='-modcacherw -buildvcs=false' go build -o "$kept/bin/gavotte-scheduler")
    mv "$kept/module/scheduler.new" "$kept/module/scheduler.built"
fi
if [ ! -e "$kept/unpacked" ]; then
    apt-get update -q
    (cd "$kept/packages" && apt-get download -q etcd-server containerd runc containernetworking-plugins busybox-static \
        iptables libip6tc2 libxtables12 libnftnl11)
    for package in "$kept"/packages/*.deb; do
        dpkg -x "$package" "$kept/up"
    done
    touch "$kept/unpacked"
fi
busybox=$kept/up/bin/busybox
shell=''
for name in sh awk cat cut date echo getconf grep head hostname ls mount nproc sed sleep timeout tr uname; do
    shell="$shell /bin/$name=@busybox"
done
libraries=$(ldd "$(command -v iperf3)" | grep -o '/[^ ]*' | sed 's/.*/&=&/')
python3 "$here/image.py" gavotte.test/pause:1 "$kept/pause.tar" "/bin/busybox=$busybox" /bin/sleep=@busybox -- /bin/sleep 2147483647
# shellcheck disable=SC2086
python3 "$here/image.py" gavotte.test/agent:1 "$kept/agent.tar" "/bin/busybox=$busybox" $shell \
    $libraries "/usr/bin/gavotte-agent=$PWD/.venv/bin/gavotte-agent" "/usr/bin/iperf3=$(command -v iperf3)"
# The image and the manifest that users get.
rm -rf "$kept/dist"
python3 "$PWD/tools/image" "$PWD/.venv/bin/gavotte-agent" "$kept/dist"
