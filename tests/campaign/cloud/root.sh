# Source this file: it mounts the overlay with the services at $kept/root, in this mount namespace
mount -t overlay overlay -o "lowerdir=/,upperdir=$kept/up,workdir=$kept/work" "$kept/root"
mount --bind /dev "$kept/root/dev"
mount --bind /sys "$kept/root/sys"
mount -t proc proc "$kept/root/proc"
mount -t tmpfs tmpfs "$kept/root/tmp"
