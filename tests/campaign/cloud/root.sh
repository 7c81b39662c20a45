# root.sh KEPT: mounts the overlay with the services at KEPT/root, in this mount namespace
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/up,workdir=$1/work" "$1/root"
mount --bind /dev "$1/root/dev"
mount --bind /sys "$1/root/sys"
mount -t proc proc "$1/root/proc"
mount -t tmpfs tmpfs "$1/root/tmp"
