"""Makes a network with addresses, an image and a flavour, which the tests of the OpenStack driver use."""

# mypy: ignore-errors

import time

import openstack

c = openstack.connect()


def wait(what, condition):
    for _ in range(150):
        try:
            if condition():
                print(what, flush=True)
                return
        except Exception as error:
            message = error
        time.sleep(2)
    raise SystemExit(f"{what}: gave up: {message!r}"[:400])


wait("nova-compute", lambda: sum(s.binary == "nova-compute" and s.state == "up" for s in c.compute.services()) == 3)
wait("hypervisors", lambda: len(list(c.compute.hypervisors(details=False))) == 3)
wait("neutron", lambda: list(c.network.networks()) is not None)
net = c.network.find_network("net") or c.network.create_network(name="net")
if not list(c.network.subnets(network_id=net.id)):
    c.network.create_subnet(network_id=net.id, ip_version=4, cidr="10.9.0.0/24", enable_dhcp=False)
c.image.find_image("im", ignore_missing=True) or c.create_image(
    "im", filename="/tmp/img", disk_format="raw", container_format="bare", wait=True
)
c.compute.find_flavor("tiny") or c.compute.create_flavor(name="tiny", ram=512, vcpus=1, disk=1)
print("ready", flush=True)
