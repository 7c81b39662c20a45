"""Campaign: which measurements to take, in which order and how often (`*.campaign.toml`).

One file is one study: any person who has it and the hosts can repeat it. After OSMeF (section IV-C), whose scenarios,
traffic patterns and flavours it names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from gavotte.formats.files.reading import Written, parse_toml, problem, read_noun
from gavotte.formats.parts.names import HostName, Label, check_unique, check_unique_hosts, known_as
from gavotte.formats.parts.rate_fields import Rate, Size

FORMAT = "gavotte/campaign/1"

MOST_CONNECTIONS = 64
"""Most connections of one pair that an agent accepts."""

MOST_SAMPLES = 1_000_000
"""Most samples of one campaign."""

Kind = Literal["loopback", "pair", "parallel", "shuffle", "incast", "all-to-all", "tunnel", "gre", "veth", "ovs"]
JOINED: tuple[Kind, ...] = ("tunnel", "gre", "veth", "ovs")
"""Kinds that send over a path which is made for them."""
Engine = Literal["own", "iperf3", "nuttcp"]
Protocol = Literal["tcp", "udp"]
Direction = Literal["forward", "reverse", "both"]

LEAST_MTU_BYTES = 576
MOST_MTU_BYTES = 9216

Ends = Annotated[list[HostName], Field(min_length=1, max_length=1000)]


class Driver(Written):
    """What makes the endpoints, and from what.

    Attributes:
        kind: `lab`, `ssh`, `openstack` or `kubernetes`.
        topology: for `lab`: the Topology, relative to the file.
        tenants: for `lab`: tenant to its hosts. A tenant reaches another tenant's hosts only through the router.
        hosts: for `ssh`: the Inventory, relative to the file; or ssh-config:GLOB, slurm, mpi:HOSTFILE,
            kubeconfig.
        cloud: for `openstack`: the entry of `clouds.yaml`; empty = the environment's OS_ variables.
        image: for `openstack`: name of the image of every server; for `kubernetes`: the container image with the agent.
        network: for `openstack`: name of the network of every server.
        user: for `openstack`: login name for SSH.
        server: for `openstack`: the servers to make.
        wait_s: how long endpoints may take to get ready.
        context: for `kubernetes`: context of the kubeconfig; empty = its current one.
        namespace: for `kubernetes`: namespace of the DaemonSets.
        node_selector: for `kubernetes`: labels of the nodes that they run on.
        node: for `kubernetes`: the node of each endpoint. An endpoint without an entry is the node of the same name.
        host_network: for `kubernetes`: whether agents are in their nodes' network, not the pods'.
    """

    kind: Literal["lab", "ssh", "openstack", "kubernetes"]
    topology: Annotated[str, Field(min_length=1)] | None = None
    tenants: dict[Label, Ends] = {}
    hosts: Annotated[str, Field(min_length=1)] | None = None
    cloud: str = ""
    image: Annotated[str, Field(min_length=1)] | None = None
    network: Annotated[str, Field(min_length=1)] | None = None
    user: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,31}$")] = "debian"
    server: Annotated[list[Server], Field(max_length=1000)] = []
    wait_s: Annotated[float, Field(gt=0, le=86_400)] = 600.0
    context: str = ""
    namespace: HostName = "default"
    node_selector: dict[str, str] = {}
    node: Annotated[list[Node], Field(max_length=1000)] = []
    host_network: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        needed = {"lab": ("topology",), "ssh": ("hosts",), "openstack": ("image", "network", "server")}
        needed["kubernetes"] = ("image",)
        for key in needed[self.kind]:
            if not getattr(self, key):
                raise problem(f"a `{self.kind}` driver needs `{key}`", f"add {key} = ...", field=f"driver.{key}")
        common = {"kind", "wait_s", "tenants"}
        known = {
            "lab": {"topology"},
            "ssh": {"hosts"},
            "openstack": {"cloud", "image", "network", "user", "server"},
            "kubernetes": {"image", "context", "namespace", "node_selector", "node", "host_network"},
        }[self.kind]
        for key in sorted(self.model_fields_set - common - known):
            raise problem(f"is not a key of a `{self.kind}` driver", "remove it", field=f"driver.{key}")
        check_unique_hosts("driver.server", [server.name for server in self.server], field="name")
        check_unique_hosts("driver.node", [node.name for node in self.node], field="name")
        if self.host_network and any(node.same_node_as is not None for node in self.node):
            raise problem(
                "agents of one node would share its ports", "remove same_node_as", field="driver.host_network"
            )
        tenant: dict[str, str] = {}
        for name, hosts in self.tenants.items():
            for host in hosts:
                if other := tenant.get(host.lower()):
                    raise problem(
                        f"`{host}` belongs to `{other}` already", "name it once", field=f"driver.tenants.{name}"
                    )
                tenant[host.lower()] = name
        return self

    def tenant(self, host: str) -> str:
        """Return the tenant of a host; empty = the tenant of all hosts that `tenants` does not name."""
        return next((name for name, hosts in self.tenants.items() if known_as(host, hosts) in hosts), "")


class Server(Written):
    """A server to make.

    Attributes:
        name: name of the endpoint.
        flavor: its flavour's name.
        zone: availability zone, as `nova` or `nova:HOST`; None = any.
        same_host_as: a server on whose machine it must be.
        other_host_than: a server on whose machine it must not be.
    """

    name: HostName
    flavor: Annotated[str, Field(min_length=1, max_length=255)]
    zone: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    same_host_as: HostName | None = None
    other_host_than: HostName | None = None


class Node(Written):
    """The node of a Kubernetes cluster that serves as an endpoint.

    Attributes:
        name: name of the endpoint.
        labels: labels that its node must have.
        same_node_as: an endpoint on whose node it must be.
    """

    name: HostName
    labels: dict[str, str] = {}
    same_node_as: HostName | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.labels and self.same_node_as is not None:
            raise problem("has labels and shares another endpoint's node", "use only one of the two")
        return self


Driver.model_rebuild()


class Flavour(Written):
    """Limit on an endpoint's use of its machine's processors, by cgroup.

    Attributes:
        name: the name that `scenario.flavours` uses.
        cpus: total processor time, in cores; 0.5 = half of one. None = no limit.
        cores: number of cores that it may run on. None = all.
    """

    name: Label
    cpus: Annotated[float, Field(gt=0, le=4096)] | None = None
    cores: Annotated[int, Field(gt=0, le=4096)] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.cpus is None and self.cores is None:
            raise problem("limits nothing", "give it cpus or cores")
        return self


class Background(Written):
    """Traffic that runs during the measurement and is not counted.

    Attributes:
        source: host that sends.
        target: host that receives.
        connections: number of connections.
    """

    source: HostName
    target: HostName
    connections: Annotated[int, Field(ge=1, le=MOST_CONNECTIONS)] = 1


class Scenario(Written):
    """A measurement, taken with every number of connections and every flavour.

    Attributes:
        name: unique.
        kind: `loopback`: each source to itself. `pair`: each source to each target, one pair after the other. `tunnel`:
            the same through VXLAN; `gre`: through GRE; `veth`: over a cable that joins both hosts; `ovs`: through an
            Open vSwitch between them. `parallel`: the first source to the first target, the second to the second and
            so on, at once. `shuffle`: all sources to all targets at once. `incast`: all sources to the one target at
            once. `all-to-all`: every source to every other at once.
        source: hosts that send.
        target: hosts that receive.
        connections: TCP connections of each pair.
        directions: `forward`: sources send to targets. `reverse`: targets send to sources. `both`: both at once.
        protocol: `tcp`, or `udp` for packets at an even rate, whose loss, jitter and delay are measured.
        rate: UDP payload that each pair offers.
        mtu_bytes: largest IP packets to send; none = what the path carries. Several values make a sweep.
        program_each: whether iperf3 or nuttcp runs once for each connection, as OSMeF did, so that each connection's
            processor time is known.
        flavours: names of flavours of all its endpoints; none = without limit.
        background: traffic at the same time.
        engine: the program that sends and counts; None = the campaign's.
        seconds: duration; None = the campaign's.
        repetitions: number of repetitions; None = the campaign's.
    """

    name: Label
    kind: Kind
    source: Ends
    target: Annotated[list[HostName], Field(max_length=1000)] = []
    connections: Annotated[
        list[Annotated[int, Field(ge=1, le=MOST_CONNECTIONS)]], Field(min_length=1, max_length=MOST_CONNECTIONS)
    ] = [1]
    directions: Annotated[list[Direction], Field(min_length=1, max_length=3)] = ["forward"]
    protocol: Protocol = "tcp"
    rate: Rate | None = None
    mtu_bytes: Annotated[list[Annotated[int, Field(ge=LEAST_MTU_BYTES, le=MOST_MTU_BYTES)]], Field(max_length=100)] = []
    program_each: bool = False
    flavours: Annotated[list[Label], Field(max_length=100)] = []
    background: Annotated[list[Background], Field(max_length=100)] = []
    engine: Engine | None = None
    seconds: Annotated[float, Field(gt=0, le=3600)] | None = None
    repetitions: Annotated[int, Field(ge=1, le=10_000)] | None = None

    @property
    def fault(self) -> tuple[str, str, str] | None:
        """Return why the scenario cannot be measured: key, what is wrong with it, remedy."""
        for key in ("source", "target", "connections", "flavours", "directions", "mtu_bytes"):
            hosts = key in ("source", "target")
            listed = [str(each).lower() if hosts else each for each in getattr(self, key)]
            if len(set(listed)) < len(listed):
                return key, "names one twice", "name each once"
        if self.kind in ("loopback", "all-to-all"):
            if self.target:
                return "target", f"has no place in `{self.kind}`", "remove it"
            if self.kind == "all-to-all" and len(self.source) < 2:
                return "source", "a single host has no other to send to", "name two or more"
        elif not self.target:
            return "target", "is missing", "name the hosts that receive"
        if self.kind == "parallel" and len(self.source) != len(self.target):
            return "target", "`parallel` goes from each source to its own target", "name as many of both"
        if self.kind == "incast" and len(self.target) != 1:
            return "target", "`incast` has one target", "name one, or use `shuffle`"
        measured = {(source.lower(), target.lower()) for group in self.groups for source, target in group}
        if self.kind != "loopback" and any(source == target for source, target in measured):
            return "target", "a host would send to itself", "use `loopback` for that"
        return self._fault_of_traffic(measured) or self._fault_of_background(measured)

    def _fault_of_traffic(self, measured: set[tuple[str, str]]) -> tuple[str, str, str] | None:
        if self.protocol == "udp":
            if self.rate is None:
                return "rate", "is missing", 'say what each pair offers, e.g. rate = "50mbit"'
            if self.connections != [1]:
                return "connections", "have no place in `udp`: each pair has one stream", "remove it"
            if self.kind == "loopback":
                return "protocol", "`udp` needs two hosts", "use another kind"
        elif self.rate is not None:
            return "rate", "has no place in `tcp`, which sends as fast as it can", "remove it, or set protocol"
        if self.directions != ["forward"] and self.kind in ("loopback", "all-to-all"):
            return "directions", f"have no place in `{self.kind}`", "remove it"
        if "both" in self.directions and any((target, source) in measured for source, target in measured):
            return "directions", "`both` would send twice between two of the hosts", "name each pair of hosts once"
        return None

    def _fault_of_background(self, measured: set[tuple[str, str]]) -> tuple[str, str, str] | None:
        ways = measured | ({(b, a) for a, b in measured} if set(self.directions) - {"forward"} else set())
        for number, stream in enumerate(self.background):
            pair = (stream.source.lower(), stream.target.lower())
            if pair in ways or pair[0] == pair[1]:
                wrong = "goes where the scenario itself measures, or from a host to itself"
                return f"background[{number}]", wrong, "use another pair of hosts"
        return None

    @property
    def groups(self) -> list[list[tuple[str, str]]]:
        """Return the (source, target) pairs that are measured at once, for each measurement of this scenario."""
        if self.kind == "loopback":
            return [[(host, host)] for host in self.source]
        if self.kind == "pair" or self.kind in JOINED:
            return [[(source, target)] for source in self.source for target in self.target]
        if self.kind == "parallel":
            return [list(zip(self.source, self.target, strict=False))]
        if self.kind == "all-to-all":
            return [[(source, target) for source in self.source for target in self.source if source != target]]
        return [[(source, target) for source in self.source for target in self.target]]


class Stop(Written):
    """Condition under which repetitions end early.

    Attributes:
        relative_half_width: half width of the mean's 95 % confidence interval, divided by the mean. A narrower one ends
            the repetitions.
        most_repetitions: most repetitions in any case.
    """

    relative_half_width: Annotated[float, Field(gt=0, lt=10)]
    most_repetitions: Annotated[int, Field(ge=1, le=10_000)]


class CampaignLimits(Written):
    """Most that a campaign may cost. A plan that would cost more is refused.

    Attributes:
        seconds: from its first sample to its last.
        bytes: total payload.
    """

    seconds: Annotated[float, Field(gt=0, le=1e9)] | None = None
    bytes: Size | None = None


class Campaign(Written):
    """A study.

    Attributes:
        format: version of the format.
        name: name in every Record.
        seed: decides the order, and which packets links of a lab lose.
        order: `random`: all samples in one random order. `blocked`: repetition after repetition, each in a random
            order.
        repetitions: repetitions of every sample; with `stop`, the least number.
        seconds: how long each sample sends.
        engine: the program that sends and counts: Gavotte's agents (`own`), iperf3 or nuttcp.
        congestion: TCP congestion control of every connection.
        copy_received: whether agents copy what they receive, as other programs do, or have the kernel drop it.
        assumed_rate: rate of a path, for estimating bytes where no rate is known.
        driver: what makes the endpoints.
        flavour: limits on the processors that endpoints may use.
        scenario: what is measured.
        stop: when repetitions end early; None = after `repetitions`.
        budget: most that it may cost.
    """

    format: Literal["gavotte/campaign/1"]
    name: Label
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    order: Literal["random", "blocked"] = "random"
    repetitions: Annotated[int, Field(ge=1, le=10_000)] = 5
    seconds: Annotated[float, Field(gt=0, le=3600)] = 2.0
    engine: Engine = "own"
    congestion: Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,15}$")] = "cubic"
    copy_received: bool = True
    assumed_rate: Rate = 10e9
    driver: Driver
    flavour: Annotated[list[Flavour], Field(max_length=100)] = []
    scenario: Annotated[list[Scenario], Field(min_length=1, max_length=1000)]
    stop: Stop | None = None
    budget: CampaignLimits = CampaignLimits()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_unique("scenario", [scenario.name for scenario in self.scenario], field="name")
        check_unique("flavour", [flavour.name for flavour in self.flavour], field="name")
        known = {flavour.name for flavour in self.flavour}
        samples = 0
        for index, scenario in enumerate(self.scenario):
            here = f"scenario[{index}]"
            if fault := scenario.fault:
                key, wrong, remedy = fault
                raise problem(wrong, remedy, field=f"{here}.{key}")
            for name in scenario.flavours:
                if name not in known:
                    raise problem(f"`{name}` is not a flavour", "add a [[flavour]]", field=f"{here}.flavours")
            if fault := self._fault_of_engine(scenario):
                key, wrong, remedy = fault
                raise problem(wrong, remedy, field=f"{here}.{key}")
            least = scenario.repetitions or self.repetitions
            if self.stop is not None and self.stop.most_repetitions < least:
                raise problem(
                    f"`{scenario.name}` has {least} repetitions at least", "use more", field="stop.most_repetitions"
                )
            most = least if self.stop is None else self.stop.most_repetitions
            cells = len(scenario.groups) * len(scenario.connections) * max(1, len(scenario.flavours))
            samples += cells * len(scenario.directions) * max(1, len(scenario.mtu_bytes)) * most
        if samples > MOST_SAMPLES:
            raise problem(f"{samples} samples", f"plan at most {MOST_SAMPLES}", field="scenario")
        return self

    def _fault_of_engine(self, scenario: Scenario) -> tuple[str, str, str] | None:
        """Return why the scenario's engine cannot measure it: key, what is wrong with it, remedy."""
        own = (scenario.engine or self.engine) == "own"
        if own and scenario.program_each:
            return "program_each", "has no place with the agents as engine", "remove it, or use iperf3 or nuttcp"
        if own and scenario.protocol == "udp":
            for pairs in scenario.groups:
                targets = [target.lower() for _, target in pairs]
                sources = [source.lower() for source, _ in pairs]
                ends = targets if "forward" in scenario.directions else []
                if len(set(ends)) < len(ends) or (
                    set(scenario.directions) - {"forward"} and len(set(sources)) < len(sources)
                ):
                    return "protocol", "an agent receives one UDP stream at a time", 'set engine = "iperf3"'
        return None

    @property
    def endpoints(self) -> list[str]:
        """Return every host that it names, in order of first use."""
        named = [name for each in self.scenario for name in (*each.source, *each.target)]
        named += [end for each in self.scenario for other in each.background for end in (other.source, other.target)]
        return list(dict.fromkeys(named))


def read_campaign(path: str | Path) -> Campaign:
    """Read a `*.campaign.toml`. Its relative paths become absolute.

    Raises:
        FormatError: naming file, field and remedy.
    """
    campaign = read_noun(Campaign, path, parse_toml)
    folder = Path(path).absolute().parent
    driver, paths = campaign.driver, {}
    if driver.topology is not None:
        paths["topology"] = str(folder / driver.topology)
    if driver.hosts is not None and driver.hosts not in ("slurm", "lab", "kubeconfig") and ":" not in driver.hosts:
        paths["hosts"] = str(folder / driver.hosts)
    return campaign.model_copy(update={"driver": driver.model_copy(update=paths)}) if paths else campaign
