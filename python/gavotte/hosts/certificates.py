"""Certificates of a tenant's own authority. All keys are P-256, which gRPC's TLS accepts everywhere."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gavotte.errors import GavotteError
from gavotte.extras import needs

with needs("tls"):
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CLOCKS = datetime.timedelta(minutes=5)
"""Longest time by which hosts' clocks may be behind."""


@dataclass(frozen=True)
class Signed:
    """A private key and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> tuple[bytes, bytes]:
        """The contents of the key's file and of the certificate's file."""
        pem = serialization.Encoding.PEM
        key = self.key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return key, self.certificate.public_bytes(pem)


@dataclass(frozen=True)
class Authority(Signed):
    """Key and certificate that sign others."""

    def for_client(self, name: str, until: datetime.datetime) -> Signed:
        """Return a certificate with which its owner may call servers, and with its key."""
        return self._sign(name, (), ExtendedKeyUsageOID.CLIENT_AUTH, until)

    def for_server(self, name: str, places: Sequence[str], until: datetime.datetime) -> Signed:
        """Return a certificate for a server that is reached by these names and addresses, with its key."""
        return self._sign(name, places, ExtendedKeyUsageOID.SERVER_AUTH, until)

    def _sign(
        self, name: str, places: Sequence[str], purpose: x509.ObjectIdentifier, until: datetime.datetime
    ) -> Signed:
        key, issuer = ec.generate_private_key(ec.SECP256R1()), self.certificate
        end = min(until, issuer.not_valid_after_utc)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = (
            _begun(_name(name), issuer.subject, key.public_key(), end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(identifier, critical=False)
        )
        if places:
            alternatives = x509.SubjectAlternativeName([_alternative(place) for place in places])
            builder = builder.add_extension(alternatives, critical=False)
        return Signed(key, builder.sign(self.key, hashes.SHA256()))


def new_authority(until: datetime.datetime) -> Authority:
    """Return a new authority that is valid until a time."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("gavotte authority")
    certificate = (
        _begun(name, name, key.public_key(), until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(key, certificate)


def read_authority(certificate_file: Path, key_file: Path) -> Authority:
    """Read an authority from the files that have its certificate and its key.

    Raises:
        GavotteError: when the files cannot be read, are of another program or do not fit together, or it has expired.
    """
    try:
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        key = serialization.load_pem_private_key(key_file.read_bytes(), password=None)
    except OSError as error:
        raise GavotteError(f"{error.filename}: {error.strerror}", hint="leave out --add to create one") from None
    except (ValueError, TypeError):
        raise GavotteError(
            f"{certificate_file.parent} has no authority of `gavotte hosts keys`", hint="leave out --add to create one"
        ) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise GavotteError(f"{key_file} is not the key of {certificate_file.name}", hint="create new keys with --force")
    if certificate.not_valid_after_utc <= datetime.datetime.now(datetime.timezone.utc):
        raise GavotteError(f"{certificate_file} has expired", hint="create new keys with --force")
    return Authority(key, certificate)


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, until: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.datetime.now(datetime.timezone.utc) - CLOCKS)
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


def _alternative(place: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(place))
    except ValueError:
        return x509.DNSName(place)
