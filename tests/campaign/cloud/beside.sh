# beside.sh KEPT COMMAND...: starts the services and, when they are ready, runs a command; all end with it
set -e
kept=$1
shift
mount -t proc proc /proc
ip link set lo up
. "$kept/os/root.sh"
mkdir -p "$kept/root/os"
mount --bind "$kept/os" "$kept/root/os"
chroot "$kept/root" bash /os/services.sh >"$kept/services.log" 2>&1 &
for _ in $(seq 900); do
    [ ! -e "$kept/os/ready" ] || break
    kill -0 $! 2>/dev/null || break
    sleep 1
done
[ -e "$kept/os/ready" ] || { tail -n 20 "$kept/services.log" >&2; exit 1; }
status=0
"$@" || status=$?
exit $status
