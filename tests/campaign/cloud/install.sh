# install.sh KEPT: installs the services into the overlay; none of them is started, nor any database made
set -e
. "$1/os/root.sh"
printf '#!/bin/sh\nexit 101\n' >"$1/root/usr/sbin/policy-rc.d"
chmod +x "$1/root/usr/sbin/policy-rc.d"
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
nice chroot "$1/root" apt-get update -q
nice chroot "$1/root" apt-get install -y -q --no-install-recommends keystone placement-api glance-api nova-api \
    nova-conductor nova-scheduler nova-compute neutron-server rabbitmq-server
