"""GRE by two BPF programs on a host's device, for kernels that were built without GRE.

    python -m gavotte.campaign.drivers.gre DEVICE NETWORK OWN PEER

The egress program puts packets to NETWORK (a /16) into GRE from OWN to PEER. The ingress program takes them out. Both
end with this process, which runs in the host's network namespace until its input ends. It needs root and Linux 6.6.
"""

from __future__ import annotations

import ctypes
import ipaddress
import os
import platform
import socket
import struct
import sys

BPF_CALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "s390x": 351, "ppc64le": 361}
"""Number of the system call `bpf`, by machine."""
PROG_LOAD, LINK_CREATE = 5, 28
SCHED_CLS = 3
TCX_INGRESS, TCX_EGRESS = 46, 47
STORE_BYTES, ADJUST_ROOM = 9, 50
ROOM_AT_MAC = 1
FIXED_GSO, ENCAP_IPV4, ENCAP_GRE, DECAP_IPV4 = 1 << 0, 1 << 1, 1 << 3, 1 << 7
GRE = 47
ETHERNET_BYTES, HEADERS_BYTES = 14, 24
"""Sizes of Ethernet's header, and of the outer IP and GRE headers together."""
PASS, DROP = 0, 2
TTL = 64

R0, R1, R2, R3, R4, R5, R6, R7, R8, FP = 0, 1, 2, 3, 4, 5, 6, 7, 8, 10


class Program:
    """A BPF program under construction: instructions, and jumps to its end."""

    def __init__(self) -> None:
        self._code: list[tuple[int, int, int, int, int]] = []
        self._to_end: list[int] = []

    def add(self, opcode: int, target: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> None:
        """Append an instruction."""
        self._code.append((opcode, target, source, offset, value))

    def set(self, register: int, value: int) -> None:
        """Append `register = value`."""
        self.add(0xB7, register, value=value)

    def load(self, size: int, offset: int) -> None:
        """Append a load of 1, 2 or 4 bytes of the packet, as a number in R0. Short packets end the program."""
        self.add({1: 0x30, 2: 0x28, 4: 0x20}[size], value=offset)

    def leave_unless(self, register: int, value: int) -> None:
        """Append a jump to the end unless the register has that value."""
        self._to_end.append(len(self._code))
        self.add(0x55, register, value=value)

    def store(self, size: int, offset: int, value: int) -> None:
        """Append a store of a number of 1, 2 or 4 bytes on the stack, in network order."""
        raw = value.to_bytes(size, "big")
        self.add({1: 0x72, 2: 0x6A, 4: 0x62}[size], FP, offset=offset, value=int.from_bytes(raw, sys.byteorder))

    def finish(self) -> bytes:
        """Return the program, whose end passes the packet on."""
        end = len(self._code)
        for at in self._to_end:
            opcode, target, source, _, value = self._code[at]
            self._code[at] = (opcode, target, source, end - at - 1, value)
        self.set(R0, PASS)
        self.add(0x95)
        return b"".join(
            struct.pack("=BBhi", opcode, target | source << 4, offset, value if value < 1 << 31 else value - (1 << 32))
            for opcode, target, source, offset, value in self._code
        )


def egress(network: str, own: str, peer: str) -> bytes:
    """Return the program that puts packets to a /16 network into GRE."""
    prefix = int(ipaddress.ip_address(network)) >> 16
    code = Program()
    code.add(0xBF, R6, R1)
    code.load(2, 12)
    code.leave_unless(R0, 0x0800)
    code.load(2, ETHERNET_BYTES + 16)
    code.leave_unless(R0, prefix)
    # R8: length of the outer packet, as the kernel counts a large one that it will cut later.
    code.add(0x61, R8, R6)
    code.add(0x07, R8, value=HEADERS_BYTES - ETHERNET_BYTES)
    code.add(0xBF, R1, R6)
    code.set(R2, HEADERS_BYTES)
    code.set(R3, ROOM_AT_MAC)
    # The route's MTU has left room for the headers, so segments keep their size.
    code.set(R4, FIXED_GSO | ENCAP_IPV4 | ENCAP_GRE)
    code.add(0x85, value=ADJUST_ROOM)
    code.add(0x15, R0, offset=2)
    code.set(R0, DROP)
    code.add(0x95)
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 0, 0, 0x4000, TTL, GRE, 0, _packed(own), _packed(peer))
    constant = sum(struct.unpack("!10H", head))
    base = -HEADERS_BYTES
    code.store(2, base, 0x4500)
    code.store(4, base + 4, 0x4000)
    code.store(2, base + 8, TTL << 8 | GRE)
    code.store(4, base + 12, int(ipaddress.ip_address(own)))
    code.store(4, base + 16, int(ipaddress.ip_address(peer)))
    code.store(4, base + 20, 0x0800)
    # The checksum is that of the constant words and the length, folded twice.
    code.add(0xBF, R7, R8)
    code.add(0x07, R7, value=constant)
    for _ in range(2):
        code.add(0xBF, R2, R7)
        code.add(0x77, R2, value=16)
        code.add(0x57, R7, value=0xFFFF)
        code.add(0x0F, R7, R2)
    code.add(0xA7, R7, value=0xFFFF)
    code.add(0xDC, R7, value=16)
    code.add(0x6B, FP, R7, base + 10)
    code.add(0xDC, R8, value=16)
    code.add(0x6B, FP, R8, base + 2)
    code.add(0xBF, R1, R6)
    code.set(R2, ETHERNET_BYTES)
    code.add(0xBF, R3, FP)
    code.add(0x07, R3, value=base)
    code.set(R4, HEADERS_BYTES)
    code.set(R5, 0)
    code.add(0x85, value=STORE_BYTES)
    return code.finish()


def ingress(peer: str) -> bytes:
    """Return the program that takes packets of a peer out of GRE."""
    code = Program()
    code.add(0xBF, R6, R1)
    code.load(2, 12)
    code.leave_unless(R0, 0x0800)
    code.load(1, ETHERNET_BYTES + 9)
    code.leave_unless(R0, GRE)
    code.load(4, ETHERNET_BYTES + 20)
    code.leave_unless(R0, 0x0800)
    address = int(ipaddress.ip_address(peer))
    for at in (0, 2):
        code.load(2, ETHERNET_BYTES + 12 + at)
        code.leave_unless(R0, address >> (16 if at == 0 else 0) & 0xFFFF)
    code.add(0xBF, R1, R6)
    code.add(0xB7, R2, value=-HEADERS_BYTES)
    code.set(R3, ROOM_AT_MAC)
    code.set(R4, FIXED_GSO | DECAP_IPV4)
    code.add(0x85, value=ADJUST_ROOM)
    return code.finish()


def load(code: bytes) -> int:
    """Load a program and return its file descriptor.

    Raises:
        OSError: when the kernel refuses it; the text has the verifier's last line.
    """
    log = ctypes.create_string_buffer(1 << 16)
    program = ctypes.create_string_buffer(code, len(code))
    license_ = ctypes.create_string_buffer(b"GPL")
    fields = struct.pack(
        "=IIQQIIQII", SCHED_CLS, len(code) // 8, ctypes.addressof(program), ctypes.addressof(license_), 1, len(log),
        ctypes.addressof(log), 0, 0,
    )  # fmt: skip
    try:
        return _bpf(PROG_LOAD, fields)
    except OSError as error:
        lines = log.value.decode(errors="replace").strip().splitlines()
        raise OSError(error.errno, lines[-1] if lines else error.strerror) from None


def attach(program: int, device: str, direction: int) -> int:
    """Attach a program to a device and return the link, which lasts as long as its file descriptor is open."""
    return _bpf(LINK_CREATE, struct.pack("=IIIIIIQ", program, socket.if_nametoindex(device), direction, 0, 0, 0, 0))


def _packed(address: str) -> bytes:
    return ipaddress.ip_address(address).packed


def _bpf(command: int, fields: bytes) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    attributes = ctypes.create_string_buffer(fields, 128)
    result: int = library.syscall(
        ctypes.c_long(BPF_CALL[platform.machine()]), ctypes.c_int(command), attributes, ctypes.c_uint(len(attributes))
    )
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def _tell(line: str) -> None:
    """Write a line to the program that started this one."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Attach both programs, write `ready`, and wait for the end of the input."""
    device, network, own, peer = sys.argv[1:]
    try:
        links = [
            attach(load(egress(network, own, peer)), device, TCX_EGRESS),
            attach(load(ingress(peer)), device, TCX_INGRESS),
        ]
    except (OSError, KeyError) as error:
        _tell(f"BPF: {error}")
        return 1
    _tell("ready")
    sys.stdin.read()
    for link in links:
        os.close(link)
    return 0


if __name__ == "__main__":
    sys.exit(main())
