"""`gavotte hosts keys`: the files it makes for each host, and the files it never overwrites."""

from __future__ import annotations

import datetime
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from gavotte.errors import GavotteError
from gavotte.hosts import Bearer, keys, read_bearer

ALL = ["ca.key", "ca.pem", "controller.key", "controller.pem", "hosts/a/host.key", "hosts/a/host.pem", "hosts/a/ca.pem"]


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_an_authority_a_controller_and_hosts(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "keys"
    files = keys(folder, [read_bearer("a=10.0.0.1,a.example,::1")], days=30)
    assert [str(file.relative_to(folder)) for file in files] == ALL
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {file.name for file in files if stat.S_IMODE(file.stat().st_mode) == 0o600} == {
        "ca.key", "controller.key", "host.key",
    }  # fmt: skip
    assert not list(folder.glob(".new-*"))
    authority = certificate(folder / "ca.pem")
    host, controller = certificate(folder / "hosts/a/host.pem"), certificate(folder / "controller.pem")
    for signed, purpose in ((host, ExtendedKeyUsageOID.SERVER_AUTH), (controller, ExtendedKeyUsageOID.CLIENT_AUTH)):
        signed.verify_directly_issued_by(authority)
        assert list(signed.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [purpose]
        life = signed.not_valid_after_utc - datetime.datetime.now(datetime.timezone.utc)
        assert datetime.timedelta(days=29) < life <= datetime.timedelta(days=30)
    places = host.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(place.value) for place in places] == ["10.0.0.1", "a.example", "::1"]
    assert (folder / "hosts/a/ca.pem").read_bytes() == (folder / "ca.pem").read_bytes()


def test_nothing_is_overwritten_unless_forced(tmp_path: Path) -> None:
    bearer = Bearer("a", ("a",))
    keys(tmp_path, [bearer])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(GavotteError, match=r"ca\.key already exists; name another folder"):
        keys(tmp_path, [Bearer("b", ("b",))])
    with pytest.raises(GavotteError, match="already exists"):
        keys(tmp_path, [bearer], add=True)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    (tmp_path / "mine.txt").write_text("kept")
    keys(tmp_path, [bearer], force=True)
    assert (tmp_path / "ca.pem").read_bytes() != before[tmp_path / "ca.pem"]
    assert (tmp_path / "mine.txt").read_text() == "kept"


def test_more_hosts_by_the_same_authority(tmp_path: Path) -> None:
    keys(tmp_path, [Bearer("a", ("a",))], days=10)
    authority = (tmp_path / "ca.pem").read_bytes()
    files = keys(tmp_path, [Bearer("b", ("10.0.0.2",))], add=True, days=999)
    assert [file.parent.name for file in files] == ["b"] * 3
    assert (tmp_path / "ca.pem").read_bytes() == authority
    added = certificate(tmp_path / "hosts/b/host.pem")
    added.verify_directly_issued_by(certificate(tmp_path / "ca.pem"))
    assert added.not_valid_after_utc == certificate(tmp_path / "ca.pem").not_valid_after_utc


@pytest.mark.parametrize("text", ["", "=10.0.0.1", "../up", "a/b", "a=", "a=10.0.0.1,", "a=x y", "-a", "a" * 64])
def test_what_names_no_host(text: str) -> None:
    with pytest.raises(GavotteError):
        read_bearer(text)


def test_bad_requests(tmp_path: Path) -> None:
    bearer = Bearer("a", ("a",))
    with pytest.raises(GavotteError, match="no host named"):
        keys(tmp_path, [])
    with pytest.raises(GavotteError, match="`a` is named twice"):
        keys(tmp_path, [bearer, bearer])
    with pytest.raises(GavotteError, match="leave out --add"):
        keys(tmp_path, [bearer], add=True)
    with pytest.raises(GavotteError, match="for 0 days"):
        keys(tmp_path, [bearer], days=0)
    (tmp_path / "ca.pem").write_text("x")
    (tmp_path / "ca.key").write_text("x")
    with pytest.raises(GavotteError, match="has no authority"):
        keys(tmp_path, [bearer], add=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(GavotteError, match="file"):
        keys(tmp_path / "file", [bearer])
