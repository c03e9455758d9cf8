"""The configuration by a file and environment variables, and ``tilewright config``.

Precedence: option, environment, file, default. Options name their environment variable (click's ``envvar``); a setting
that several commands share finds its options by that variable. The database layer reads its URL and password from the
environment, so these two settings are copied from the file to the environment.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tilewright.cli.declare import declared
from tilewright.cli.options import Duration
from tilewright.cli.output import report, table
from tilewright.core import UsageError
from tilewright.errors import nearest
from tilewright.paths import config_root


@dataclass(frozen=True)
class Setting:
    """A setting that several commands share: its section and key in the file, and its environment variable."""

    section: str
    key: str
    variable: str


DATABASE_URL = Setting("database", "url", "TILEWRIGHT_DB")
DATABASE_PASSWORD = Setting("database", "password", "TILEWRIGHT_DB_PASSWORD")
FARM_ADDRESS = Setting("farm", "address", "TILEWRIGHT_FARM")
FARM_CERTS = Setting("farm", "certs", "TILEWRIGHT_CERTS")
FARM_DEVICE = Setting("farm", "device", "TILEWRIGHT_DEVICE")
SETTINGS = (
    DATABASE_URL,
    DATABASE_PASSWORD,
    FARM_ADDRESS,
    FARM_CERTS,
    FARM_DEVICE,
    Setting("tune", "target", "TILEWRIGHT_TARGET"),
    Setting("tune", "threads", "TILEWRIGHT_THREADS"),
    Setting("tune", "trials", "TILEWRIGHT_TRIALS"),
)
_EXPORTED = (DATABASE_URL, DATABASE_PASSWORD)
_PATHS = (DATABASE_URL, FARM_CERTS)
HIDDEN = "***"
Entry = tuple[tuple[str, str], Any]
"""A file's entry: its section and key, and its value."""


@dataclass(frozen=True)
class Configuration:
    """The file's values by section and key (``path`` is ``None`` without a file), and the original environment."""

    path: Path | None
    entries: Mapping[tuple[str, str], Any]
    environment: Mapping[str, str]

    def exports(self) -> dict[str, str]:
        """Environment variables to set for the database layer."""
        url, password = (self.entries.get((s.section, s.key)) for s in _EXPORTED)
        there = self.environment.get(DATABASE_URL.variable)
        out = {}
        if url and not there:
            out[DATABASE_URL.variable] = str(url)
        # A password beside a URL in the file is for that database, not for a database that the environment names.
        for_it = url is None or not there or there == url
        if password and for_it and not self.environment.get(DATABASE_PASSWORD.variable):
            out[DATABASE_PASSWORD.variable] = str(password)
        return out

    def defaults(self, ctx: click.Context, name: str, command: click.Command) -> dict[str, Any]:
        """Click's ``default_map`` of a command; a group's includes the maps of its commands."""
        out: dict[str, Any] = {}
        # farm.device names a device class, for commands that may use a farm; a runner's --device is a local device.
        asks_farm = any(isinstance(p, click.Option) and p.envvar == FARM_ADDRESS.variable for p in command.params)
        for param in command.params:
            value = self.entries.get((name, _key(param))) if isinstance(param, click.Option) else None
            for setting in SETTINGS:
                applies = asks_farm if setting is FARM_DEVICE else setting.section == "farm" or "." not in name
                if value is None and param.envvar == setting.variable and setting not in _EXPORTED and applies:
                    value = self.entries.get((setting.section, setting.key))
            if value is not None and param.name:
                out[param.name] = value
        if isinstance(command, click.Group):
            for sub in command.list_commands(ctx):
                inner = command.get_command(ctx, sub)
                if inner is not None:
                    out[sub] = self.defaults(ctx, f"{name}.{sub}", inner)
        return out


def config_path() -> Path:
    """Path of the file: ``$TILEWRIGHT_CONFIG``, else ``tilewright/config.toml`` in ``$XDG_CONFIG_HOME``
    (``~/.config``)."""
    given = os.environ.get("TILEWRIGHT_CONFIG")
    if given:
        return Path(os.path.expanduser(given))
    return config_root() / "config.toml"


def configure(ctx: click.Context) -> None:
    """Reads the file and makes its values the defaults of the command that the root context ``ctx`` will run.

    Raises ``UsageError`` for a file that cannot be read, or with unknown sections or keys.
    """
    configuration = ctx.obj = load(ctx)
    os.environ.update(configuration.exports())
    name = ctx.invoked_subcommand
    command = ctx.command.get_command(ctx, name) if isinstance(ctx.command, click.Group) and name else None
    if configuration.entries and name and command:
        ctx.default_map = {name: configuration.defaults(ctx, name, command)}


def load(ctx: click.Context) -> Configuration:
    """Reads the file at :func:`config_path` and checks it against the commands of ``ctx``."""
    environment = dict(os.environ)
    path = config_path()
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read().decode()
    except FileNotFoundError:
        if not environment.get("TILEWRIGHT_CONFIG"):
            return Configuration(None, {}, environment)
        raise UsageError(f"there is no file {path}", "Set TILEWRIGHT_CONFIG to an existing file, or unset it") from None
    except OSError as e:
        raise UsageError(
            f"cannot read {path}: {e.strerror or e}", "Make it readable, or name another file in TILEWRIGHT_CONFIG"
        ) from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text", "Save it as UTF-8") from None
    import tomllib

    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise UsageError(f"{path} is not TOML: {e}", "Write a section [tune], and below it trials = 400") from None
    assert isinstance(ctx.command, click.Group)
    entries = dict(_Reader(ctx, path, text).entries(ctx.command, tables))
    if mode & 0o077 and any(key == "password" or hide(value) != value for (_, key), value in entries.items()):
        raise UsageError(
            f"{path} contains a password, and other users can read it (mode {mode:04o})", f"Run: chmod 600 {path}"
        )
    return Configuration(path, entries, environment)


class _Reader:
    """Checks a file's entries against the settings and the commands' options."""

    def __init__(self, ctx: click.Context, path: Path, text: str) -> None:
        self.ctx, self.path, self.text = ctx, path, text

    def entries(self, root: click.Group, tables: Mapping[str, Any]) -> Iterator[Entry]:
        known = [*dict.fromkeys(s.section for s in SETTINGS), *root.list_commands(self.ctx)]
        for name, entries in tables.items():
            if name not in known:
                what = "section" if isinstance(entries, dict) else "key"
                raise self._wrong((name,), f"unknown {what} {name!r}", _known(name, known, "sections"))
            if not isinstance(entries, dict):
                raise self._wrong((name,), f"{name} is a section, not a key", f"Write [{name}] on a line of its own")
            yield from self._section((name,), root.get_command(self.ctx, name), entries)

    def _section(
        self, place: tuple[str, ...], command: click.Command | None, entries: Mapping[str, Any]
    ) -> Iterator[Entry]:
        section = ".".join(place)
        settings = {s.key: s for s in SETTINGS if s.section == section}
        options = {_key(p): p for p in command.params if _configurable(p)} if command else {}
        inner = command.list_commands(self.ctx) if isinstance(command, click.Group) else []
        for written, value in entries.items():
            where = (*place, written)
            key = written.replace("_", "-")
            if isinstance(value, dict) and written in inner:
                assert isinstance(command, click.Group)
                yield from self._section(where, command.get_command(self.ctx, written), value)
            elif key in options:
                yield (section, key), self._option(where, options[key], value)
            elif key in settings:
                if not isinstance(value, str):
                    raise self._wrong(where, f"{key} must be a text", f'Write {key} = "..."')
                yield (section, key), self._placed(value) if settings[key] in _PATHS else value
            else:
                names = [*dict.fromkeys([*settings, *options]), *(f"[{section}.{n}]" for n in inner)]
                raise self._wrong(where, f"unknown key {written!r} in [{section}]", _known(key, names, "keys"))

    def _option(self, where: tuple[str, ...], param: click.Parameter, value: Any) -> Any:
        """Checks a value against the option's type and range, and returns it."""
        values = value if param.multiple and isinstance(value, list) else [value]
        what, kinds = _expected(param)
        # In Python a bool is an int; in the file true is not a number.
        if any(not isinstance(v, kinds) or (isinstance(v, bool) and bool not in kinds) for v in values) or (
            param.multiple and not isinstance(value, list)
        ):
            raise self._wrong(where, f"{where[-1]} must be {what}", f"See: tilewright {' '.join(where[:-1])} --help")
        if param.envvar == FARM_CERTS.variable:
            value = self._placed(value)
        try:
            for v in values:
                param.type.convert(v, param, None)
        except click.BadParameter as e:
            raise self._wrong(
                where, f"{where[-1]}: {e.message.rstrip('.')}", f"See: tilewright {' '.join(where[:-1])} --help"
            ) from None
        return value

    def _placed(self, value: str) -> str:
        """Resolves a path in the file: ``~`` is the home folder, and relative paths start at the file's folder."""
        return value if "://" in value else str(self.path.absolute().parent / os.path.expanduser(value))

    def _wrong(self, where: tuple[str, ...], message: str, hint: str) -> UsageError:
        line = line_of(self.text, where)
        return UsageError(f"{self.path}{f', line {line}' if line else ''}: {message}", hint)


def line_of(text: str, where: tuple[str, ...]) -> int | None:
    """Number, from 1, of the line of a TOML text with a key or section header; ``None`` if it is not found."""
    header: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if found := re.match(r"\[\s*([^\[\]]+?)\s*\]", stripped):
            header = _parts(found.group(1))
            full = header
        elif "=" in stripped and not stripped.startswith("#"):
            full = header + _parts(stripped.partition("=")[0])
        else:
            continue
        if full[: len(where)] == where:
            return number
    return None


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(p.strip().strip("\"'") for p in dotted.split("."))


def _key(param: click.Parameter) -> str:
    """An option's name in the file: its longest spelling without the dashes."""
    return max(param.opts, key=len).lstrip("-")


def _configurable(param: click.Parameter) -> bool:
    database = param.envvar in [s.variable for s in _EXPORTED]
    return isinstance(param, click.Option) and param.expose_value and _key(param) != "json" and not database


def _expected(param: click.Parameter) -> tuple[str, tuple[type, ...]]:
    if param.multiple:
        return "a list of texts", (str,)
    if isinstance(param.type, click.types.BoolParamType):
        return "true or false", (bool,)
    if isinstance(param.type, click.types.IntParamType):
        return "a whole number", (int,)
    if isinstance(param.type, click.types.FloatParamType):
        return "a number", (int, float)
    if isinstance(param.type, Duration):
        return "a number of seconds, or a text such as '30m'", (int, float, str)
    return "a text in quotes", (str,)


def _known(name: str, known: Iterable[str], what: str) -> str:
    names = list(known)
    return f"{nearest(name, names)}Known {what}: {', '.join(names) or 'none'}"


def hide(value: Any) -> Any:
    """Masks the passwords if the value is a URL."""
    if not isinstance(value, str):
        return value
    # Up to the last @: an unescaped @ in the password must not expose a part of it.
    value = re.sub(r"(://[^/?#@:]*):.*@", rf"\1:{HIDDEN}@", value)
    return re.sub(r"(?i)([?&](?:\w*password|\w*secret|scram_\w+_key)=)[^&]*", rf"\1{HIDDEN}", value)


def _rows(configuration: Configuration) -> Iterator[dict[str, Any]]:
    """Yields every shared setting and every entry of the file, with its value and the value's source."""
    from tilewright.paths import default_path

    left = dict(configuration.entries)
    for s in SETTINGS:
        stored, given = left.pop((s.section, s.key), None), configuration.environment.get(s.variable)
        value: Any = given or stored
        source = "environment" if given else "default" if stored is None else "file"
        if value is None and s is DATABASE_URL:
            value = default_path()
        if value is not None:
            value = HIDDEN if s is DATABASE_PASSWORD else hide(value)
        yield {"section": s.section, "key": s.key, "value": value, "source": source, "variable": s.variable}
    for (section, key), value in left.items():
        yield {"section": section, "key": key, "value": hide(value), "source": "file", "variable": None}


@declared("config")
def command() -> None:
    """Show the settings in force, and where each comes from: environment, file or default.

    Passwords are hidden.

    \b
    Examples:
      tilewright config
      TILEWRIGHT_CONFIG=farm.toml tilewright config --json
    """
    configuration = click.get_current_context().find_root().obj
    rows = list(_rows(configuration))
    path = config_path()
    shown = [
        (f"{r['section']}.{r['key']}", r["value"] if r["value"] is not None else "not set", r["source"], r["variable"])
        for r in rows
    ]
    report(
        {"file": str(path), "exists": configuration.path is not None, "settings": rows},
        f"{path}{'' if configuration.path else ' (does not exist)'}",
        table("setting", "value", "from", "environment variable", rows=shown, overflow="fold"),
    )
