"""Turn arrays, tables and graphs into what the files of Networks and Apps contain, and make graphs.

Graphs are networkx's: hosts or tasks are nodes, pairs or transfers are edges. The nouns check all content as a file's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gavotte.errors import GavotteError
from gavotte.extras import needs
from gavotte.formats.parts.app_transfers import Transfer

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

Content = dict[str, object]
Nodes = Iterable[tuple[str, dict[str, Any]]]
Edges = Iterable[tuple[str, str, dict[str, Any]]]

GRAPH, MATRIX, ROWS = "the graph", "the matrix", "the rows"
"""Names that an error has in the place of a file's."""


def network_of_matrices(
    names: Sequence[str], rate_bps: npt.ArrayLike, latency_s: npt.ArrayLike | None, sharing: str
) -> Content:
    """Return the content of a Network from (N, N) matrices, NaN = unknown, row = source."""
    known: dict[str, object] = {"rate_bps": _rows("rate_bps", rate_bps, len(names))}
    if latency_s is not None:
        known["latency_s"] = _rows("latency_s", latency_s, len(names))
    hosts = [{"name": name} for name in names]
    return {"hosts": hosts, "sharing": sharing} | known


def network_of_rows(rows: Iterable[Mapping[str, Any]], sharing: str) -> Content:
    """Return the content of a Network from one row per pair: source, target, rate_bps and, if known, latency_s."""
    pairs = list(rows)
    names = list(dict.fromkeys(str(_value(row, end)) for row in pairs for end in ("source", "target")))
    at = {name: place for place, name in enumerate(names)}
    rates, latencies = np.full((2, len(names), len(names)), np.nan)
    for row in pairs:
        place = at[str(row["source"])], at[str(row["target"])]
        rates[place] = _number(_value(row, "rate_bps"))
        latencies[place] = _number(row.get("latency_s"))
    return network_of_matrices(names, rates, None if np.isnan(latencies).all() else latencies, sharing)


def app_of_matrix(name: str, sizes: npt.ArrayLike, tasks: Sequence[str] | None) -> Content:
    """Return the content of an App from the (T, T) bytes between tasks, row = source."""
    matrix = _array("bytes", sizes)
    names = [f"t{number}" for number in range(len(matrix))] if tasks is None else list(tasks)
    if matrix.shape != (len(names), len(names)):
        raise GavotteError(f"bytes has the shape {matrix.shape} for {len(names)} tasks", hint="give a square matrix")
    rows = [
        {"source": names[i], "target": names[j], "bytes": _whole(matrix[i, j])} for i, j in np.argwhere(matrix != 0)
    ]
    return {"name": name, "task": [{"name": each} for each in names], "transfer": rows}


def app_of_rows(name: str, rows: Iterable[Mapping[str, Any]]) -> Content:
    """Return the content of an App from one row per transfer: source, target, bytes and, if any, phase and messages."""
    keys = set(Transfer.model_fields)
    sent = [{key: _plain(value) for key, value in row.items() if key in keys} for row in rows]
    names = dict.fromkeys(str(_value(row, end)) for row in sent for end in ("source", "target"))
    transfers = [{key: value for key, value in row.items() if value is not None} for row in sent]
    return {"name": name, "task": [{"name": each} for each in names], "transfer": transfers}


def graph_of(nodes: Nodes, edges: Edges, *, several: bool, **attributes: object) -> nx.DiGraph:
    """Return a directed graph.

    Args:
        nodes: names with what is known of each.
        edges: source, target and what is known of each.
        several: whether a pair may have several edges: the graph is then a MultiDiGraph.
        attributes: what is known of the whole graph.

    Raises:
        UnsupportedError: without networkx.
    """
    with needs("graphs"):
        import networkx as nx
    graph = nx.MultiDiGraph(**attributes) if several else nx.DiGraph(**attributes)
    graph.add_nodes_from(nodes)
    graph.add_edges_from(edges)
    return graph


def network_of_graph(graph: nx.DiGraph) -> Content:
    """Return the content of a Network from hosts as nodes, and pairs as edges with `rate_bps` and perhaps latency."""
    names = [str(node) for node in graph.nodes]
    at = {node: place for place, node in enumerate(graph.nodes)}
    rates, latencies = np.full((2, len(names), len(names)), np.nan)
    for source, target, known in graph.edges(data=True):
        places = [(at[source], at[target])] + ([] if graph.is_directed() else [(at[target], at[source])])
        for place in places:
            rates[place], latencies[place] = _number(_value(known, "rate_bps")), _number(known.get("latency_s"))
    content: dict[str, object] = {
        "hosts": [{"name": name, **known} for name, (_, known) in zip(names, graph.nodes(data=True), strict=True)],
        "rate_bps": _rows("rate_bps", rates, len(names)),
        "groups": graph.graph.get("groups", []),
        "sharing": graph.graph.get("sharing", "pipe"),
    }
    if not np.isnan(latencies).all():
        content["latency_s"] = _rows("latency_s", latencies, len(names))
    return content


def app_of_graph(name: str, graph: nx.DiGraph) -> Content:
    """Return the content of an App from tasks as nodes and transfers as edges with `bytes`."""
    if not graph.is_directed():
        raise GavotteError("the graph has no directions", hint="use a DiGraph, whose edges go from sender to receiver")
    transfers = [
        {"source": str(source), "target": str(target), **known} for source, target, known in graph.edges(data=True)
    ]
    tasks = [{"name": str(node), **known} for node, known in graph.nodes(data=True)]
    return {"name": name, "task": tasks, "transfer": transfers}


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a pandas DataFrame, or of anything else with `to_dict("records")`."""
    rows: list[dict[str, Any]] = frame.to_dict("records")
    return rows


def _rows(key: str, values: npt.ArrayLike, size: int) -> list[list[float | None]]:
    matrix = _array(key, values)
    if matrix.shape != (size, size):
        raise GavotteError(f"{key} has the shape {matrix.shape} for {size} hosts", hint="give a square matrix")
    return [
        [None if i == j or np.isnan(value) else value for j, value in enumerate(row)]
        for i, row in enumerate(matrix.tolist())
    ]


def _array(key: str, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise GavotteError(f"{key} is not a matrix of numbers", hint="give rows of equal length") from None


def _value(row: Mapping[str, Any], key: str) -> Any:
    if key not in row or row[key] is None:
        raise GavotteError(f"a row has no `{key}`", hint=f"it has {', '.join(map(str, row)) or 'nothing'}")
    return row[key]


def _number(value: Any) -> float:
    try:
        return np.nan if value is None else float(value)
    except (TypeError, ValueError):
        raise GavotteError(f"`{value}` is not a number", hint="use a number, or NaN for unknown") from None


def _whole(value: Any) -> Any:
    """Return a whole number as Python's; others are for their field to refuse."""
    return int(value) if float(value).is_integer() else float(value)


def _plain(value: Any) -> Any:
    """Return a number of NumPy or pandas as Python's; None for their missing values."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float):
        return None if np.isnan(plain) else int(plain) if plain.is_integer() else plain
    return plain
