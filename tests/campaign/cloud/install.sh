# install.sh KEPT: installs the services into the overlay; none of them is started, nor any database made
set -e
kept=$1
. "$kept/os/root.sh"
printf '#!/bin/sh\nexit 101\n' >"$kept/root/usr/sbin/policy-rc.d"
chmod +x "$kept/root/usr/sbin/policy-rc.d"
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
nice chroot "$kept/root" apt-get update -q
nice chroot "$kept/root" apt-get install -y -q --no-install-recommends keystone placement-api glance-api nova-api \
    nova-conductor nova-scheduler nova-compute neutron-server rabbitmq-server
