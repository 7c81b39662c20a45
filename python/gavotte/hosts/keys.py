"""Make keys for mutual TLS: the tenant's own certificate authority signs for the controller and for each host.

A host's certificate is for servers only and the controller's for clients only, so a stolen host key cannot command the
other agents. All keys are P-256, which gRPC's TLS accepts everywhere.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gavotte.errors import GavotteError

AUTHORITY = "ca.pem"
AUTHORITY_KEY = "ca.key"
CONTROLLER = "controller.pem"
CONTROLLER_KEY = "controller.key"
HOSTS = "hosts"
HOST = "host.pem"
HOST_KEY = "host.key"

DAYS = 365
CLOCKS = datetime.timedelta(minutes=5)
"""Longest time by which hosts' clocks may be behind."""


@dataclass(frozen=True)
class Bearer:
    """Host that gets a certificate.

    Attributes:
        name: name of the host's folder.
        places: names and addresses by which the controller reaches it.
    """

    name: str
    places: tuple[str, ...]


@dataclass(frozen=True)
class _Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def read_bearer(text: str) -> Bearer:
    """Read `NAME[=ADDRESS[,ADDRESS]...]`. Without addresses the host is reached by its name.

    Raises:
        GavotteError: when it is anything else.
    """
    name, mark, rest = text.partition("=")
    places = tuple(rest.split(",")) if mark else (name,)
    bearer = Bearer(name.replace(":", "-").strip("-"), places)
    _check(bearer)
    return bearer


def keys(
    folder: Path, bearers: Sequence[Bearer], *, days: int = DAYS, add: bool = False, force: bool = False
) -> list[Path]:
    """Make keys and certificates.

    `folder` gets `ca.pem`, `ca.key`, `controller.pem` and `controller.key`. For each host it gets `hosts/NAME/` with
    `ca.pem`, `host.pem` and `host.key`, which belong on that host. Private keys have mode 0600.

    Args:
        folder: folder for the files; made if need be.
        bearers: the hosts.
        days: how long everything is valid.
        add: sign for further hosts with the authority that is in `folder`.
        force: replace existing files.

    Returns:
        The files, in the order they were written.

    Raises:
        GavotteError: when something would be overwritten, or the folder cannot be used.
    """
    if not bearers:
        raise GavotteError("no host named", hint="name at least one, or use --hosts")
    if not 1 <= days <= 36500:
        raise GavotteError(f"keys cannot be valid for {days} days", hint="use 1 to 36500")
    for bearer in bearers:
        _check(bearer)
    names = [bearer.name for bearer in bearers]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise GavotteError(f"host `{twice}` is named twice", hint="name it once")
    files: dict[str, bytes] = {}
    until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    if add:
        authority = _read_authority(folder)
    else:
        authority = _new_authority(until)
        files[AUTHORITY_KEY] = _private(authority.key)
        files[AUTHORITY] = _public(authority.certificate)
        key, certificate = _signed(authority, "gavotte controller", (), ExtendedKeyUsageOID.CLIENT_AUTH, until)
        files[CONTROLLER_KEY] = _private(key)
        files[CONTROLLER] = _public(certificate)
    for bearer in bearers:
        key, certificate = _signed(authority, bearer.name, bearer.places, ExtendedKeyUsageOID.SERVER_AUTH, until)
        place = f"{HOSTS}/{bearer.name}"
        files[f"{place}/{HOST_KEY}"] = _private(key)
        files[f"{place}/{HOST}"] = _public(certificate)
        files[f"{place}/{AUTHORITY}"] = _public(authority.certificate)
    standing = [] if force else [name for name in files if (folder / name).exists()]
    if standing:
        hint = "name another folder, or give --force" if add else "name another folder, or give --add or --force"
        raise GavotteError(f"{folder / standing[0]} already exists", hint=hint)
    return _write(folder, files)


def _check(bearer: Bearer) -> None:
    letters = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._")
    if not bearer.name or not set(bearer.name) <= letters or bearer.name[0] in "-." or len(bearer.name) > 63:
        raise GavotteError(f"`{bearer.name}` is not a host name", hint="use NAME or NAME=ADDRESS,ADDRESS")
    for place in bearer.places:
        if _address(place) is None and (not place or not set(place) <= letters or place[0] in "-." or len(place) > 253):
            raise GavotteError(
                f"`{place}` of host `{bearer.name}` is neither a name nor an address",
                hint="use NAME=ADDRESS,ADDRESS",
            )


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _new_authority(until: datetime.datetime) -> _Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("gavotte authority")
    certificate = (
        _begun(name, name, key.public_key(), until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _Authority(certificate, key)


def _read_authority(folder: Path) -> _Authority:
    try:
        certificate = x509.load_pem_x509_certificate((folder / AUTHORITY).read_bytes())
        key = serialization.load_pem_private_key((folder / AUTHORITY_KEY).read_bytes(), password=None)
    except OSError as error:
        raise GavotteError(f"{error.filename}: {error.strerror}", hint="leave out --add to create one") from None
    except (ValueError, TypeError):
        raise GavotteError(
            f"{folder} has no authority of `gavotte hosts keys`", hint="leave out --add to create one"
        ) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise GavotteError(
            f"{folder / AUTHORITY_KEY} is not the key of {AUTHORITY}", hint="create new keys with --force"
        )
    if certificate.not_valid_after_utc <= datetime.datetime.now(datetime.UTC):
        raise GavotteError(f"{folder / AUTHORITY} has expired", hint="create new keys with --force")
    return _Authority(certificate, key)


def _signed(
    authority: _Authority,
    name: str,
    places: Sequence[str],
    purpose: x509.ObjectIdentifier,
    until: datetime.datetime,
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    end = min(until, authority.certificate.not_valid_after_utc)
    builder = (
        _begun(_name(name), authority.certificate.subject, key.public_key(), end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
    )
    if places:
        alternatives: list[x509.GeneralName] = []
        for place in places:
            address = _address(place)
            alternatives.append(x509.DNSName(place) if address is None else x509.IPAddress(address))
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return key, builder.sign(authority.key, hashes.SHA256())


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, until: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.datetime.now(datetime.UTC) - CLOCKS)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    pem = serialization.Encoding.PEM
    return key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def _public(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write(folder: Path, files: dict[str, bytes]) -> list[Path]:
    """Write all files under temporary names, then rename each to its own."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as aside:
            for number, (name, content) in enumerate(files.items()):
                mode = 0o600 if name.endswith(".key") else 0o644
                handle = os.open(Path(aside, str(number)), os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
                with os.fdopen(handle, "wb") as stream:
                    stream.write(content)
            for number, name in enumerate(files):
                target = folder / name
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                Path(aside, str(number)).replace(target)
    except OSError as error:
        raise GavotteError(f"{folder}: {error.strerror}", hint="use a folder that you may write to") from None
    return [folder / name for name in files]
