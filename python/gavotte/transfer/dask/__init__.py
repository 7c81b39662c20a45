"""Dask clusters that know the network between their workers. Needs `gavotte[dask]`.

A large object goes to all workers by a broadcast:

    scatter = gavotte.transfer.dask.Scatter(client, gavotte.read_inventory("hosts.toml"))
    weights = scatter(array)
    client.submit(step, weights)

The scheduler compares workers by the measured rates between them:

    client.register_plugin(gavotte.transfer.dask.Rates(network, inventory))
"""

from gavotte.transfer.dask.rates import Rates
from gavotte.transfer.dask.scattering import PAYS_FROM_BYTES, Scatter, packed, pays_from_bytes, unpack

__all__ = ["PAYS_FROM_BYTES", "Rates", "Scatter", "packed", "pays_from_bytes", "unpack"]
