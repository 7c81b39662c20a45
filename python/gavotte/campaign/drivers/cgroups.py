"""Processor limits for groups of processes, by version 1 or 2 of the kernel's control groups."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from gavotte.errors import GavotteError, UnsupportedError
from gavotte.formats.campaign import Flavour

ROOT = Path("/sys/fs/cgroup")
PREFIX = "gavotte-campaign-"
PERIOD_US = 20_000
"""Period of a processor quota, in microseconds: a fifth of the kernel's default.

A host limited to half a core then pauses for 10 ms at a time, not 50.
"""


class Groups:
    """Control groups of a campaign's hosts, one per host, in a folder that belongs to this process.

    Attributes:
        version: the kernel's version of control groups, 1 or 2.
    """

    def __init__(self, period_us: int = PERIOD_US) -> None:
        """Detect the version of control groups, create this process's folder and remove groups of ended processes.

        Args:
            period_us: period of processor quotas, in microseconds.

        Raises:
            UnsupportedError: when this process cannot create groups.
        """
        self._bases, self._period_us = bases(), period_us
        self.version = 2 if len(self._bases) == 1 else 1
        self._name = f"{PREFIX}{os.getpid()}"
        self._hosts: set[str] = set()
        sweep()
        try:
            for base in self._bases:
                (base / self._name).mkdir()
                self._open(base / self._name, base)
        except OSError as error:
            self.close()
            raise _cannot(error) from None

    def add(self, host: str, processes: Sequence[int]) -> None:
        """Create a host's group and move processes into it; processes that they start later belong to it, too."""
        try:
            for base in self._bases:
                folder = base / self._name / host
                folder.mkdir(exist_ok=True)
                self._open(folder, folder.parent)
                for process in processes:
                    (folder / "cgroup.procs").write_text(str(process))
        except OSError as error:
            raise _cannot(error) from None
        self._hosts.add(host)

    def joining(self, host: str, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs a program in a host's group; unchanged if the host has no group."""
        return self._joining(host, argv) if host in self._hosts else list(argv)

    def joining_by_name(self, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs a program in the group of the host on which it is started, by its name."""
        return self._joining("$(hostname)", argv)

    def _joining(self, host: str, argv: Sequence[str]) -> list[str]:
        files = [str(base / self._name / host / "cgroup.procs") for base in self._bases]
        join = " && ".join(f'echo $$ > "{file}"' for file in files)
        return ["sh", "-c", f'{join} && exec "$@"', "sh", *argv]

    def limit(self, host: str, flavour: Flavour | None) -> None:
        """Limit the processors that a host may use to those of a flavour; None = no limit.

        Raises:
            GavotteError: when the flavour has more cores than the machine.
        """
        cores = os.cpu_count() or 1
        wanted = None if flavour is None else flavour.cores
        if flavour is not None and wanted is not None and wanted > cores:
            raise GavotteError(
                f"flavour `{flavour.name}` has {wanted} cores, but this machine {cores}", hint="use fewer cores"
            )
        quota = None if flavour is None or flavour.cpus is None else max(1000, round(flavour.cpus * self._period_us))
        listed = f"0-{(wanted or cores) - 1}"
        try:
            if self.version == 2:
                folder = self._bases[0] / self._name / host
                (folder / "cpu.max").write_text(f"{quota or 'max'} {self._period_us}")
                if wanted is not None or (folder / "cpuset.cpus").exists():
                    (folder / "cpuset.cpus").write_text(listed)
                return
            cpu, cpuset = (base / self._name / host for base in self._bases)
            (cpu / "cpu.cfs_period_us").write_text(str(self._period_us))
            (cpu / "cpu.cfs_quota_us").write_text(str(quota or -1))
            (cpuset / "cpuset.cpus").write_text(listed)
        except OSError as error:
            raise _cannot(error) from None

    def close(self) -> None:
        """Remove the groups, except those whose processes have not ended yet; the next `sweep` removes these."""
        for base in self._bases:
            for host in self._hosts:
                with contextlib.suppress(OSError):
                    (base / self._name / host).rmdir()
            with contextlib.suppress(OSError):
                (base / self._name).rmdir()

    def _open(self, folder: Path, above: Path) -> None:
        """Configure a new group so that it accepts limits and processes."""
        if self.version == 2:
            if folder.parent == above:
                (above / "cgroup.subtree_control").write_text("+cpu +cpuset")
        elif (folder / "cpuset.cpus").exists():
            for key in ("cpuset.cpus", "cpuset.mems"):
                (folder / key).write_text((folder.parent / key).read_text())


def bases() -> list[Path]:
    """Return the folders in which to create groups: one for version 2, those of `cpu` and `cpuset` for version 1.

    Raises:
        UnsupportedError: when the machine has no control groups for processors.
    """
    controllers = ROOT / "cgroup.controllers"
    if controllers.exists() and {"cpu", "cpuset"} <= set(controllers.read_text().split()):
        return [ROOT]
    first = [ROOT / "cpu", ROOT / "cpuset"]
    if all((base / "cgroup.procs").exists() for base in first):
        return first
    raise UnsupportedError(
        f"no control groups of processors below {ROOT}", hint="leave `flavours` out, or mount cgroup2 there"
    )


def sweep() -> None:
    """Remove the empty groups that ended processes have left behind."""
    with contextlib.suppress(UnsupportedError):
        for base in bases():
            for folder in base.glob(f"{PREFIX}*"):
                owner = folder.name.removeprefix(PREFIX)
                if owner.isdigit() and not Path(f"/proc/{owner}").exists():
                    with contextlib.suppress(OSError):
                        for host in folder.iterdir():
                            if host.is_dir():
                                host.rmdir()
                        folder.rmdir()


def _cannot(error: OSError) -> UnsupportedError:
    return UnsupportedError(
        f"this machine does not allow limits on its processors: {error.filename}: {error.strerror}",
        hint="run as root, or leave `flavours` out",
    )
