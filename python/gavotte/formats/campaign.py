"""Campaign: which measurements to take, in which order and how often (`*.campaign.toml`).

One file is one study: anybody who has it and the hosts can repeat it. After OSMeF (section IV-C), whose scenarios,
traffic patterns and flavours it names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gavotte.formats.names import HostName, Label, check_unique
from gavotte.formats.rates import Rate, Size
from gavotte.formats.reading import Written, parse_toml, problem, read_noun

FORMAT = "gavotte/campaign/1"

MOST_CONNECTIONS = 64
"""Of one pair: what an agent takes."""

MOST_SAMPLES = 1_000_000
"""Of one campaign."""

Kind = Literal["loopback", "pair", "parallel", "shuffle", "incast", "all-to-all", "tunnel"]
Engine = Literal["own", "iperf3", "nuttcp"]

Ends = Annotated[list[HostName], Field(min_length=1, max_length=1000)]


class Driver(Written):
    """Who makes the endpoints, and from what.

    Attributes:
        kind: `lab`, `ssh`, `openstack` or `kubernetes`.
        topology: of `lab`: the Topology, relative to the file.
        tenants: of `lab`: tenant to its hosts; a tenant reaches another one's hosts only by way of the router.
        hosts: of `ssh`: the Inventory, relative to the file; or ssh-config:GLOB, slurm, mpi:HOSTFILE.
        cloud: of `openstack`: the entry of `clouds.yaml`; empty = the environment's OS_ variables.
        image: of `openstack`: name of the image of every server; of `kubernetes`: the container image with the agent.
        network: of `openstack`: name of the network of every server.
        user: of `openstack`: who logs in by SSH.
        server: of `openstack`: the servers to make.
        wait_s: how long endpoints may take to be there.
        context: of `kubernetes`: of the kubeconfig; empty = its current one.
        namespace: of `kubernetes`: where the DaemonSets are made.
        node_selector: of `kubernetes`: labels of the nodes that they run on.
        node: of `kubernetes`: which nodes stand for endpoints; one that is not named here is the node of its name.
        host_network: of `kubernetes`: whether agents are in their nodes' network, not the pods'.
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
        check_unique("driver.server", [server.name for server in self.server], field="name")
        check_unique("driver.node", [node.name for node in self.node], field="name")
        if self.host_network and any(node.same_node_as is not None for node in self.node):
            raise problem(
                "agents of one node would share its ports", "remove same_node_as", field="driver.host_network"
            )
        tenant: dict[str, str] = {}
        for name, hosts in self.tenants.items():
            for host in hosts:
                if host in tenant:
                    raise problem(
                        f"`{host}` belongs to `{tenant[host]}` already", "name it once", field=f"driver.tenants.{name}"
                    )
                tenant[host] = name
        return self

    def tenant(self, host: str) -> str:
        """The tenant of a host; empty = the one that owns all that are not named."""
        return next((name for name, hosts in self.tenants.items() if host in hosts), "")


class Server(Written):
    """A server to make.

    Attributes:
        name: of the endpoint.
        flavor: its flavour's name.
        zone: availability zone, as `nova` or `nova:HOST`; None = any.
        same_host_as: a server whose machine it is to share.
        other_host_than: a server whose machine it must not share.
    """

    name: HostName
    flavor: Annotated[str, Field(min_length=1, max_length=255)]
    zone: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    same_host_as: HostName | None = None
    other_host_than: HostName | None = None


class Node(Written):
    """Which node of a Kubernetes cluster stands for an endpoint.

    Attributes:
        name: of the endpoint.
        labels: that its node must have.
        same_node_as: an endpoint whose node it is to share.
    """

    name: HostName
    labels: dict[str, str] = {}
    same_node_as: HostName | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.labels and self.same_node_as is not None:
            raise problem("has labels, and shares another one's node", "give it one of both")
        return self


Driver.model_rebuild()


class Flavour(Written):
    """What an endpoint may use of its machine's processors, by cgroup.

    Attributes:
        name: for `scenario.flavours`.
        cpus: processor time in all, in cores; 0.5 = half of one. None = no limit.
        cores: how many cores it may run on. None = all.
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
    """Traffic beside what is measured; it is not counted.

    Attributes:
        source: host that sends.
        target: host that receives.
        connections: how many.
    """

    source: HostName
    target: HostName
    connections: Annotated[int, Field(ge=1, le=MOST_CONNECTIONS)] = 1


class Scenario(Written):
    """What is measured, with every number of connections and every flavour.

    Attributes:
        name: unique.
        kind: `loopback`: each source to itself. `pair`: each source to each target, one pair after the other.
            `tunnel`: the same through VXLAN. `parallel`: the first source to the first target, the second to the
            second and so on, at once. `shuffle`: all sources to all targets at once. `incast`: all sources to the one
            target at once. `all-to-all`: every source to every other at once.
        source: hosts that send.
        target: hosts that receive.
        connections: TCP connections of each pair.
        flavours: names of flavours of all its endpoints; none = without limit.
        background: traffic beside it.
        engine: who sends and counts; None = the campaign's.
        seconds: how long; None = the campaign's.
        repetitions: how often; None = the campaign's.
    """

    name: Label
    kind: Kind
    source: Ends
    target: Annotated[list[HostName], Field(max_length=1000)] = []
    connections: Annotated[
        list[Annotated[int, Field(ge=1, le=MOST_CONNECTIONS)]], Field(min_length=1, max_length=MOST_CONNECTIONS)
    ] = [1]
    flavours: Annotated[list[Label], Field(max_length=100)] = []
    background: Annotated[list[Background], Field(max_length=100)] = []
    engine: Engine | None = None
    seconds: Annotated[float, Field(gt=0, le=3600)] | None = None
    repetitions: Annotated[int, Field(ge=1, le=10_000)] | None = None

    @property
    def fault(self) -> tuple[str, str, str] | None:
        """What keeps it from being measured: key, what is wrong with it, remedy."""
        for key in ("source", "target", "connections", "flavours"):
            listed = getattr(self, key)
            if len(set(listed)) < len(listed):
                return key, "names one twice", "name each once"
        if self.kind in ("loopback", "all-to-all"):
            if self.target:
                return "target", f"has no place in `{self.kind}`", "remove it"
            if self.kind == "all-to-all" and len(self.source) < 2:
                return "source", "one host alone has nobody to send to", "name two or more"
        elif not self.target:
            return "target", "is missing", "name the hosts that receive"
        if self.kind == "parallel" and len(self.source) != len(self.target):
            return "target", "`parallel` goes from each source to its own target", "name as many of both"
        if self.kind == "incast" and len(self.target) != 1:
            return "target", "`incast` has one target", "name one, or use `shuffle`"
        measured = {pair for group in self.groups for pair in group}
        if self.kind != "loopback" and any(source == target for source, target in measured):
            return "target", "a host would send to itself", "use `loopback` for that"
        for number, beside in enumerate(self.background):
            if (beside.source, beside.target) in measured or beside.source == beside.target:
                wrong = "goes where the scenario itself measures, or from a host to itself"
                return f"background[{number}]", wrong, "use another pair of hosts"
        return None

    @property
    def groups(self) -> list[list[tuple[str, str]]]:
        """The (source, target) pairs that are measured at once, for each measurement that this scenario is."""
        if self.kind == "loopback":
            return [[(host, host)] for host in self.source]
        if self.kind in ("pair", "tunnel"):
            return [[(source, target)] for source in self.source for target in self.target]
        if self.kind == "parallel":
            return [list(zip(self.source, self.target, strict=False))]
        if self.kind == "all-to-all":
            return [[(source, target) for source in self.source for target in self.source if source != target]]
        return [[(source, target) for source in self.source for target in self.target]]


class Stop(Written):
    """When repetitions are enough.

    Attributes:
        relative_half_width: of the 95 % confidence interval of the mean, by its mean: narrower is enough.
        most_repetitions: more are not taken.
    """

    relative_half_width: Annotated[float, Field(gt=0, lt=10)]
    most_repetitions: Annotated[int, Field(ge=1, le=10_000)]


class CampaignLimits(Written):
    """What a campaign may cost; a plan that would cost more is refused.

    Attributes:
        seconds: from its first sample to its last.
        bytes: payload in all.
    """

    seconds: Annotated[float, Field(gt=0, le=1e9)] | None = None
    bytes: Size | None = None


class Campaign(Written):
    """A study.

    Attributes:
        format: version of the format.
        name: goes into every Record.
        seed: of the order.
        order: `random`: all samples in one random order. `blocked`: repetition after repetition, each in a random
            order.
        repetitions: of every sample; with `stop`, at least.
        seconds: how long each sample sends.
        engine: who sends and counts: Gavotte's agents (`own`), iperf3 or nuttcp.
        congestion: TCP congestion control of every connection.
        copy_received: whether agents copy what they receive, as other programs do, or have the kernel drop it.
        assumed_rate: of a path, to estimate bytes by where nothing says more.
        driver: who makes the endpoints.
        flavour: what endpoints may use of processors.
        scenario: what is measured.
        stop: when repetitions are enough; None = after `repetitions`.
        budget: what it may cost.
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
            least = scenario.repetitions or self.repetitions
            if self.stop is not None and self.stop.most_repetitions < least:
                raise problem(
                    f"`{scenario.name}` has {least} repetitions at least", "use more", field="stop.most_repetitions"
                )
            most = least if self.stop is None else self.stop.most_repetitions
            cells = len(scenario.groups) * len(scenario.connections) * max(1, len(scenario.flavours))
            samples += cells * most
        if samples > MOST_SAMPLES:
            raise problem(f"{samples} samples", f"plan at most {MOST_SAMPLES}", field="scenario")
        return self

    @property
    def endpoints(self) -> list[str]:
        """Every host that it names, in order of first use."""
        named = [name for each in self.scenario for name in (*each.source, *each.target)]
        named += [end for each in self.scenario for other in each.background for end in (other.source, other.target)]
        return list(dict.fromkeys(named))


def read_campaign(path: str | Path) -> Campaign:
    """Reads a `*.campaign.toml`; the paths in it become absolute.

    Raises:
        FormatError: naming file, field and remedy.
    """
    campaign = read_noun(Campaign, path, parse_toml)
    folder = Path(path).absolute().parent
    driver, paths = campaign.driver, {}
    if driver.topology is not None:
        paths["topology"] = str(folder / driver.topology)
    if driver.hosts is not None and driver.hosts not in ("slurm", "lab") and ":" not in driver.hosts:
        paths["hosts"] = str(folder / driver.hosts)
    return campaign.model_copy(update={"driver": driver.model_copy(update=paths)}) if paths else campaign
