"""Dask clusters that know the network between their workers. Needs `gavotte[dask]`.

One plugin gives the scheduler the measured rates between workers, and sends large objects to them by broadcasts:

    client.register_plugin(gavotte.transfer.dask.Gavotte(network, inventory))
    weights = client.scatter(array, broadcast=True)

`Rates` is the part with the rates. `Scatter` sends objects from the client's own host instead of a worker's:

    scatter = gavotte.transfer.dask.Scatter(client, inventory)
    weights = scatter(array)
"""

from gavotte.transfer.dask.plugin import Gavotte
from gavotte.transfer.dask.rates import Rates
from gavotte.transfer.dask.scattering import PAYS_FROM_BYTES, Scatter, packed, pays_from_bytes, unpack

__all__ = ["PAYS_FROM_BYTES", "Gavotte", "Rates", "Scatter", "packed", "pays_from_bytes", "unpack"]
