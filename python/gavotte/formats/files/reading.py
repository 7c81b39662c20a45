"""Read and write files so that an error names the file, the field and the remedy.

Every noun is read through `validate`, which turns pydantic's findings into one `FormatError`. It is written through
`write_text` or `write_bytes`, which write to a temporary file first and then rename it.
"""

from __future__ import annotations

import codecs
import difflib
import json
import os
import re
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import rtoml
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError

from gavotte.errors import FormatError
from gavotte.formats.files.kinds import FORMAT, HEAD_BYTES, check_kind, kind_of, named

_NOUN = re.compile(r"gavotte/([a-z]+)/[0-9]+")
"""The `format` key of every noun."""

OTHER_ENDINGS = frozenset({".csv", ".tsv", ".txt", ".json", ".jsonl", ".npz", ".parquet", ".xlsx", ".toml", ".html"})
"""Endings of names that promise a format."""

MAX_TEXT_BYTES = 1 << 30
"""A text file above this is refused unread: a 4096-host Network has 0.4 GB."""

MAX_PIPED_BYTES = 1 << 28
"""Most bytes that are read from a file of unknown size, such as a pipe or `/dev/zero`."""

_BLOCK_BYTES = 1 << 20

STDOUT = Path("/dev/stdout")
"""Standard output as a file to write."""


class Written(BaseModel):
    """Base of types that people write: an unknown key is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


class Emitted(BaseModel):
    """Base of types that machines write: an unknown key comes from a newer version and is ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False, defer_build=True)


Model = TypeVar("Model", bound=BaseModel)


def problem(text: str, remedy: str, *, field: str = "") -> PydanticCustomError:
    """Build the error that a validator raises, with the remedy for the user.

    Args:
        text: what is wrong.
        remedy: what to write instead.
        field: the field, from the top of the file, when it is not the validated field itself.
    """
    # Pydantic would read braces as a template.
    context = {"problem": text, "remedy": remedy, "field": field}
    return PydanticCustomError("gavotte", "{problem}", context)


def read_bytes(path: str | Path) -> bytes:
    """Read a whole file of bounded size.

    Raises:
        FormatError: when it is missing, unreadable, or larger than `MAX_TEXT_BYTES` (`MAX_PIPED_BYTES` for a pipe).
    """
    try:
        with Path(path).open("rb", buffering=0) as stream:
            status = os.fstat(stream.fileno())
            most = MAX_TEXT_BYTES if stat.S_ISREG(status.st_mode) else MAX_PIPED_BYTES
            content = bytearray()
            if status.st_size <= most:
                while len(content) <= most and (block := stream.read(_BLOCK_BYTES)):
                    content += block
            if max(status.st_size, len(content)) > most:
                raise FormatError(str(path), "", f"is larger than {most} bytes", "is it the right file?")
            return bytes(content)
    except FileNotFoundError:
        raise FormatError(str(path), "", "no such file", "check the path") from None
    except OSError as error:
        raise FormatError(str(path), "", f"cannot be read: {error.strerror}", "check the path") from None
    except ValueError as error:  # a NUL in the path
        raise FormatError(repr(path), "", str(error), "check the path") from None


def read_text(path: str | Path) -> str:
    """Read a UTF-8 file.

    Raises:
        FormatError: as `read_bytes` does, and when it is not UTF-8.
    """
    content = read_bytes(path)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise FormatError(str(path), "", "is UTF-16 text", "save it as UTF-8")
    try:
        # One kind of line end, as in files opened in text mode, and no mark of the byte order, as some editors add it.
        return content.removeprefix(codecs.BOM_UTF8).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        if (kind := kind_of(content[:HEAD_BYTES])) and not FORMAT.search(
            content[:HEAD_BYTES].decode("utf-8", "replace")
        ):
            raise FormatError(str(path), "", f"is {named(kind)}", "use a text file") from None
        raise FormatError(str(path), "", f"is not UTF-8 text (byte {error.start})", "save it as UTF-8") from None


def read_noun(model: type[Model], path: str | Path, parse: Callable[[str, str], Any]) -> Model:
    """Read a file that holds one noun.

    Args:
        model: the noun's type.
        path: the file.
        parse: `parse_toml` or `parse_json`.

    Raises:
        FormatError: naming file, field and remedy; if the file holds something else, naming that.
    """
    noun = _NOUN.fullmatch(model.model_fields["format"].annotation.__args__[0])  # type: ignore[union-attr]
    assert noun is not None
    check_kind(path, noun[1])
    return validate(model, parse(read_text(path), str(path)), str(path))


def parse_toml(text: str, path: str) -> dict[str, Any]:
    """Parse TOML; a syntax error becomes a `FormatError` with its line and column."""
    try:
        return rtoml.loads(text)
    except ValueError:
        return _parse_with_positions(text, path)


def _parse_with_positions(text: str, path: str) -> dict[str, Any]:
    """Parse TOML that rtoml refuses: half as fast, with the line and column of a syntax error."""
    import tomli

    try:
        return tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        if text.lstrip().startswith("{"):
            raise FormatError(path, "", "is JSON", "use TOML") from None
        raise FormatError(path, "", f"is not TOML: {error}", "correct the syntax there") from None
    except RecursionError:
        raise FormatError(path, "", "is nested too deeply", "use fewer levels") from None
    except ValueError:
        raise FormatError(path, "", "holds an integer of thousands of digits", "correct it") from None


def parse_json(text: str, path: str) -> Any:
    """Parse strict JSON (no NaN, no Infinity); an error becomes a `FormatError` with its line."""

    def refuse(constant: str) -> Any:
        raise FormatError(path, "", f"contains {constant}, which JSON does not have", "use null for unknown")

    try:
        return json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        if FORMAT.search(text) and "{" not in text[:1]:
            raise FormatError(path, "", "is TOML", "use JSON") from None
        where = f"line {error.lineno} column {error.colno}"
        raise FormatError(path, "", f"is not JSON: {error.msg} at {where}", "correct the syntax there") from None
    except RecursionError:
        raise FormatError(path, "", "is nested too deeply", "use fewer levels") from None
    except ValueError:
        raise FormatError(path, "", "holds an integer of thousands of digits", "correct it") from None


def validate(model: type[Model], data: Any, path: str) -> Model:
    """Turn parsed data into a validated noun.

    Args:
        model: the noun's type.
        data: the parsed data.
        path: the file's name for the message.

    Raises:
        FormatError: the first finding, as file, field, problem and remedy.
    """
    if not isinstance(data, Mapping):
        raise FormatError(path, "", "has no table at the top level", "start with the `format` key")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        # With an unknown format, every other finding is a consequence.
        findings = error.errors(include_url=False)
        first = next((f for f in findings if f["loc"][:1] == ("format",)), None)
        # A misspelt key is also a missing one; its own message says what to write.
        first = first or next((f for f in findings if _is_misspelt(model, f)), findings[0])
        raise _format_error(model, dict(first), path) from None
    except RecursionError:
        raise FormatError(path, "", "is nested too deeply", "use fewer levels") from None


def check_ending(path: str | Path, noun: str, ending: str = ".json") -> None:
    """Refuse to write a noun under a name that promises another format.

    Args:
        path: the file to write. A name without a known ending promises no format.
        noun: what is written, with its article: `a Network`.
        ending: the ending of the noun's format.

    Raises:
        FormatError: naming the file.
    """
    target = Path(path)
    if target.suffix.lower() in OTHER_ENDINGS - {ending}:
        raise FormatError(str(path), "", f"{noun} is written as {ending}", f"use -o {target.stem}{ending}")


def check_folder(path: str | Path) -> None:
    """Refuse a file that could not be written at the end of long work.

    The file itself is not touched. A temporary file in its folder is created and removed, because permissions alone do
    not show a read-only file system.

    Raises:
        FormatError: when the path is a folder, or its folder is missing or not writable.
    """
    target = Path(path)
    try:
        if target.is_dir():
            raise FormatError(str(path), "", "is a folder", "name a file")
        if is_device(target):
            return
        if not target.parent.is_dir():
            raise FormatError(str(path), "", "no such folder", "create the folder, or name another file")
        tempfile.NamedTemporaryFile(prefix=f".{target.name[:100]}.", dir=target.parent).close()
    except OSError as error:
        remedy = "name a file in another folder"
        raise FormatError(str(path), "", f"cannot be written: {error.strerror}", remedy) from None
    except ValueError as error:  # a NUL in the path
        raise FormatError(repr(path), "", str(error), "check the path") from None


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text to a temporary file and rename it. See `write_bytes`."""
    write_bytes(path, text.encode())


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a file whole or not at all: first a temporary file in the same folder, which is then renamed.

    Raises:
        FormatError: when the folder is missing or the disk is full; the old file then stays as it was.
    """
    target = Path(path)
    aside = ""
    try:
        if is_device(target):
            with open_device(target) as device:
                device.write(content)
            return
        handle, aside = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            os.fchmod(stream.fileno(), 0o666 & ~_umask())
        Path(aside).replace(target)
    except OSError as error:
        if aside:
            Path(aside).unlink(missing_ok=True)
        raise FormatError(str(path), "", f"cannot be written: {error.strerror}", "check the folder") from None
    except ValueError as error:
        raise FormatError(repr(path), "", str(error), "check the path") from None


def is_device(path: Path) -> bool:
    """Return whether to write through a path: a rename over `/dev/stdout` would replace the system's own link."""
    whole = path.absolute()
    named = whole.is_relative_to("/proc") or (whole.is_relative_to("/dev") and not whole.is_relative_to("/dev/shm"))
    return path.exists() and (named or not path.is_file())


def open_device(path: Path) -> BinaryIO:
    """Open a device or pipe to write to it. Opened by its name, a redirected stdout would lose what it contains."""
    return os.fdopen(os.dup(1), "wb") if path == STDOUT else path.open("wb")


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


def _field(location: tuple[Any, ...]) -> str:
    """Return pydantic's location as a user would find it in the file: `host[3].egress`."""
    text = ""
    for part in location:
        if isinstance(part, str) and part.startswith("<"):  # the tag of a value that may be a list or a table
            continue
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else str(part)
    return text


def _format_error(model: type[BaseModel], finding: dict[str, Any], path: str) -> FormatError:
    kind = finding["type"]
    location = tuple(finding["loc"])
    context = finding.get("ctx", {})
    field = _field(location)
    if kind == "gavotte":
        return FormatError(path, context["field"] or field, context["problem"], context["remedy"])
    if kind == "missing":
        return FormatError(path, field, "is missing", "add it")
    if kind == "extra_forbidden":
        return FormatError(path, field, "is not a known key", _nearest(model, location))
    if location == ("format",) and (noun := _NOUN.fullmatch(str(finding["input"]))):
        expected = _NOUN.search(str(context["expected"]))
        if expected is not None and noun[1] != expected[1]:
            return FormatError(path, "", f"is {named(noun[1])}", f"use {named(expected[1])}")
    if kind == "literal_error":
        return FormatError(path, field, f"is {_shown(finding['input'])}", f"use {context['expected']}")
    if kind == "model_type" or kind.startswith(("dict", "mapping")):
        return FormatError(path, field, "is not a table", "use a table")
    rule = str(finding["msg"]).removeprefix("Value error, ").removeprefix("Input ").split(" after validation")[0]
    remedy = f"it {rule}" if rule.startswith("should") else rule[:1].lower() + rule[1:]
    return FormatError(path, field, f"is {_shown(finding['input'])}", remedy)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _is_misspelt(model: type[BaseModel], finding: Any) -> bool:
    return finding["type"] == "extra_forbidden" and _nearest(model, tuple(finding["loc"])).startswith("did you mean")


def _nearest(model: type[BaseModel], location: tuple[Any, ...]) -> str:
    """Return a remedy with the key that was probably meant."""
    owner: type[BaseModel] | None = model
    for part in location[:-1]:
        if isinstance(part, str) and not part.startswith("<") and owner is not None:
            owner = _inner_model(owner, part)
    if owner is None:
        return "remove it"
    close = difflib.get_close_matches(str(location[-1]), list(owner.model_fields), n=1)
    if close:
        return f"did you mean `{close[0]}`?"
    return f"known keys are {', '.join(owner.model_fields)}"


def _inner_model(model: type[BaseModel], key: str) -> type[BaseModel] | None:
    field = model.model_fields.get(key)
    if field is None:
        return None
    queue: list[Any] = [field.annotation]
    while queue:
        candidate = queue.pop()
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
        queue.extend(getattr(candidate, "__args__", ()))
    return None
