"""Enters the services' addresses into Keystone's catalogue. Runs with the system's Python and SDK."""

# mypy: ignore-errors

import time

import openstack

ADDRESSES = {
    "compute": "http://127.0.0.1:8774/v2.1",
    "placement": "http://127.0.0.1:8778",
    "image": "http://127.0.0.1:9292",
    "network": "http://127.0.0.1:9696",
}

for _ in range(60):
    try:
        cloud = openstack.connect()
        cloud.authorize()
        break
    except Exception:
        time.sleep(1)
for kind, url in ADDRESSES.items():
    service = cloud.identity.create_service(name=kind, type=kind)
    for interface in ("public", "internal"):
        cloud.identity.create_endpoint(service_id=service.id, interface=interface, region_id="R", url=url)
