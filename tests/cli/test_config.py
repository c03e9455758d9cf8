"""The configuration file and the environment: precedence, refusals, and what ``tilewright config`` shows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from tilewright.cli.app import COMMANDS, app, run
from tilewright.cli.commands import config

DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"
VARIABLES = [s.variable for s in config.SETTINGS]
Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No setting from outside, and none left behind: reading a file sets variables of this process."""
    before = dict(os.environ)
    for v in VARIABLES:
        monkeypatch.delenv(v, raising=False)
    yield
    for v in VARIABLES:
        os.environ.pop(v, None)
        if v in before:
            os.environ[v] = before[v]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes the configuration file and has it used."""

    def to_file(text: str, mode: int = 0o600) -> Path:
        path = tmp_path / "config.toml"
        path.write_text(text)
        path.chmod(mode)
        monkeypatch.setenv("TILEWRIGHT_CONFIG", str(path))
        return path

    return to_file


def given(*arguments: str) -> dict[str, Any]:
    """What the command that ``arguments`` name is called with, as the program itself reads them."""
    seen: dict[str, Any] = {}
    words, ctx = list(arguments), click.Context(app)
    command: click.Command | None = app
    while isinstance(command, click.Group):
        command = command.get_command(ctx, words.pop(0))
    assert command is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "callback", lambda **values: seen.update(values))
        app.main(args=list(arguments), standalone_mode=False)
    return seen


def test_option_before_environment_before_file_before_default(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    assert given("tune", "matmul")["threads"] == 1
    write("[tune]\nthreads = 2\ntrials = 7\ntime-budget = 1.5\ntarget = 'cpu:avx2'")
    values = given("tune", "matmul")
    assert (values["threads"], values["trials"], values["time_budget"]) == (2, 7, 1.5)
    monkeypatch.setenv("TILEWRIGHT_THREADS", "3")
    monkeypatch.setenv("TILEWRIGHT_TRIALS", "8")
    monkeypatch.setenv("TILEWRIGHT_TARGET", "cuda")
    values = given("tune", "matmul", "--trials", "9")
    assert (values["threads"], values["trials"], values["target"]) == (3, 9, "cuda")


def test_what_tune_uses_others_use_too_unless_they_say_otherwise(write: Write) -> None:
    write("[tune]\nthreads = 2\ntarget = 'cpu:avx2'\nseed = 4\n[best]\nthreads = 3")
    best = given("best", "matmul")
    assert (best["threads"], best["target"]) == (3, "cpu:avx2")
    assert given("bench", "matmul")["threads"] == 2
    assert given("space", "matmul")["seed"] == 0, "a seed of tune's is tune's alone"
    assert given("check", "matmul")["target"] is None, "check is for CUDA and has a target of its own"


def test_sections_of_commands_in_groups(write: Write) -> None:
    write("[cache.gc]\nlimit = 100")
    assert given("cache", "gc")["limit"] == 100


def test_farm_settings_reach_options_and_arguments_by_their_variable(write: Write, tmp_path: Path) -> None:
    text = '[farm]\naddress = "tls://h:1"\ncerts = "certs"\ndevice = "class-a"\n'
    write(text)
    tune = given("tune", "matmul")
    assert (tune["farm"], tune["certs"], tune["device"]) == ("tls://h:1", tmp_path / "certs", "class-a")
    runner = given("farm", "runner")
    assert (runner["address"], runner["certs"]) == ("tls://h:1", tmp_path / "certs")
    assert runner["device"] == "auto", "a runner is not asked for a class of devices"
    assert given("farm", "runner", "tls://i:2")["address"] == "tls://i:2"
    assert given("farm", "drain", "r")["address"] == "tls://h:1"
    assert given("verify")["device"] == "auto"
    write(text + '[tune]\ntarget = "cuda"\n[farm.runner]\ndevice = "cpu:0"\ndrain_seconds = 5')
    runner = given("farm", "runner")
    assert (runner["device"], runner["drain_seconds"]) == ("cpu:0", 5.0)
    assert runner["target"] == "auto", "tune's target is no runner's"
    assert given("best", "matmul")["target"] == "cuda"


def test_lists_and_flags(write: Write) -> None:
    write("[tune]\nknob = ['BM=1,2', 'BN=4']\nwith_templates = true")
    values = given("tune", "mm.cpp")
    assert (values["knob"], values["with_templates"]) == (("BM=1,2", "BN=4"), True)


def test_tune_and_farm_commands_name_their_variables() -> None:
    """A shared setting finds an option by the variable that the option names."""
    expected = {"farm": "TILEWRIGHT_FARM", "certs": "TILEWRIGHT_CERTS", "trials": "TILEWRIGHT_TRIALS"}
    ctx = click.Context(app)
    tune = app.get_command(ctx, "tune")
    assert tune is not None
    farm = app.get_command(ctx, "farm")
    assert isinstance(farm, click.Group)
    online = [c for n in farm.list_commands(ctx) if n not in ("init", "issue") and (c := farm.get_command(ctx, n))]
    for command in (tune, *online):
        for param in command.params:
            if param.name == "address":
                assert param.envvar == "TILEWRIGHT_FARM", command.name
            elif param.name == "farm" and command is not tune:
                assert param.envvar is None, "its argument ADDRESS has the variable"
            elif param.name in expected and isinstance(param, click.Option):
                assert param.envvar == expected[param.name], (command.name, param.name)


def test_database_settings_become_what_the_library_reads(write: Write, tmp_path: Path) -> None:
    from tilewright.paths import default_path

    write('[database]\nurl = "postgresql+psycopg://u@h/d"\npassword = "sekrit"')
    assert given("runs")["db"] == "postgresql+psycopg://u@h/d"
    assert default_path() == "postgresql+psycopg://u@h/d"
    assert os.environ["TILEWRIGHT_DB_PASSWORD"] == "sekrit"
    os.environ.pop("TILEWRIGHT_DB")
    write('[database]\nurl = "farm.db"')
    given("runs")
    assert default_path() == str(tmp_path / "farm.db"), "a relative path starts at the file's folder"


def test_a_password_goes_to_the_database_beside_it_only(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write('[database]\nurl = "postgresql://u@h/d"\npassword = "sekrit"')
    monkeypatch.setenv("TILEWRIGHT_DB", "postgresql://u@elsewhere/d")
    given("runs")
    assert "TILEWRIGHT_DB_PASSWORD" not in os.environ
    write('[database]\npassword = "sekrit"')
    given("runs")
    assert os.environ["TILEWRIGHT_DB_PASSWORD"] == "sekrit"
    monkeypatch.setenv("TILEWRIGHT_DB_PASSWORD", "other")
    given("runs")
    assert os.environ["TILEWRIGHT_DB_PASSWORD"] == "other"


WRONG = [
    ("[tnue]\n", 1, "unknown section 'tnue'", "Did you mean tune?"),
    ("trials = 3\n", 1, "unknown key 'trials'", "Known sections: database, farm, tune"),
    ("tune = 3\n", 1, "tune is a section", "[tune]"),
    ("[tune]\n\n# trails\ntrails = 3\n", 4, "unknown key 'trails' in [tune]", "Did you mean trials?"),
    ("[tune]\nseed = 1\ntune.seed = 3\n", 3, "unknown key 'tune' in [tune]", "Known keys: "),
    ("tune.trails = 3\n", 1, "unknown key 'trails' in [tune]", "Did you mean trials?"),
    ("[database]\nuser = 'x'\n", 2, "unknown key 'user' in [database]", "Known keys: url, password"),
    ("[tune]\ndb = 'x'\n", 2, "unknown key 'db' in [tune]", "Known keys"),
    ("[tune]\njson = true\n", 2, "unknown key 'json' in [tune]", "Known keys"),
    ("[tune]\nop = 'matmul'\n", 2, "unknown key 'op' in [tune]", "Known keys"),
    ("[cache]\nlimit = 3\n", 2, "unknown key 'limit' in [cache]", "[cache.gc]"),
    ("[cache.gc]\nlimits = 3\n", 2, "unknown key 'limits' in [cache.gc]", "Did you mean limit?"),
    ("[tune]\ntrials = '3'\n", 2, "trials must be a whole number", "tilewright tune --help"),
    ("[tune]\ntrials = true\n", 2, "trials must be a whole number", ""),
    ("[tune]\ntrials = 1.5\n", 2, "trials must be a whole number", ""),
    ("[tune]\ntrials = -1\n", 2, "trials: -1 is not in the range x>=0", ""),
    ("[tune]\ntime_budget = 'long'\n", 2, "time_budget: 'long' is not a time above 0", ""),
    ("[tune]\ntime_budget = true\n", 2, "time_budget must be a number of seconds", ""),
    ("[tune]\ntarget = 3\n", 2, "target must be a text in quotes", ""),
    ("[tune]\nwith-templates = 1\n", 2, "with-templates must be true or false", ""),
    ("[tune]\nknob = 'BM=1'\n", 2, "knob must be a list of texts", ""),
    ("[tune]\nknob = [1]\n", 2, "knob must be a list of texts", ""),
    ("[farm]\naddress = 8786\n", 2, "address must be a text", ""),
    ("[farm]\n  certz = 'd'\n", 2, "unknown key 'certz' in [farm]", "Did you mean certs?"),
]


@pytest.mark.parametrize(("text", "line", "message", "hint"), WRONG)
def test_what_nobody_knows_is_named_with_its_line(
    text: str, line: int, message: str, hint: str, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(text)
    assert run(["runs", "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["kind"] == "usage"
    assert error["message"].startswith(f"{path}, line {line}: {message}")
    assert hint in error["mend"]


def test_a_wrong_password_is_not_repeated(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("[database]\npassword = 12345")
    assert run(["runs"]) == 2
    assert "12345" not in "".join(capsys.readouterr())


def test_files_that_cannot_be_read(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said() -> str:
        assert run(["runs"]) == 2
        return capsys.readouterr().err

    path = write("[tune]\ntrials = \n")
    assert f"{path} is not TOML" in (text := said())
    assert "line 2" in text
    path.write_bytes(b"\xff\xfe")
    assert "not UTF-8 text" in said()
    monkeypatch.setenv("TILEWRIGHT_CONFIG", str(tmp_path))
    assert f"cannot read {tmp_path}" in said()
    monkeypatch.setenv("TILEWRIGHT_CONFIG", str(tmp_path / "none.toml"))
    assert f"there is no file {tmp_path / 'none.toml'}" in said()


def test_help_of_the_program_needs_no_good_file(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("[nonsense")
    assert run(["--help"]) == 0
    assert run(["--version"]) == 0


def test_the_usual_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert config.config_path() == tmp_path / "tilewright" / "config.toml"
    assert given("tune", "matmul")["trials"] is None, "no file is no error there"
    config.config_path().parent.mkdir()
    config.config_path().write_text("[tune]\ntrials = 5")
    assert given("tune", "matmul")["trials"] == 5
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert config.config_path() == Path.home() / ".config" / "tilewright" / "config.toml"


@pytest.mark.parametrize("text", ["password = 'sekrit'", "url = 'postgresql://u:sekrit@h/d'"])
@pytest.mark.parametrize("mode", [0o604, 0o640, 0o644])
def test_a_file_with_a_password_is_for_its_owner_only(
    text: str, mode: int, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(f"[database]\n{text}", mode)
    assert run(["config"]) == 2
    err = capsys.readouterr().err
    assert f"other users can read it (mode {mode:04o})" in err
    assert f"chmod 600 {path}" in err
    assert "sekrit" not in err
    assert "TILEWRIGHT_DB_PASSWORD" not in os.environ
    write("[tune]\ntrials = 5", mode)
    assert run(["config"]) == 0, "without a password anyone may read it"


def test_config_shows_values_and_origins_and_no_passwords(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write('[database]\nurl = "postgresql://u:sek@rit@h/d?sslmode=verify-full"\n[tune]\ntrials = 5\nseed = 3')
    monkeypatch.setenv("TILEWRIGHT_DB_PASSWORD", "sekrit")
    monkeypatch.setenv("TILEWRIGHT_THREADS", "2")
    assert run(["config", "--json"]) == 0
    out = capsys.readouterr().out
    data = json.loads(out)
    assert (data["file"], data["exists"]) == (str(path), True)
    rows = {f"{r['section']}.{r['key']}": (r["value"], r["source"], r["variable"]) for r in data["settings"]}
    assert rows["database.url"] == ("postgresql://u:***@h/d?sslmode=verify-full", "file", "TILEWRIGHT_DB")
    assert rows["database.password"] == ("***", "environment", "TILEWRIGHT_DB_PASSWORD")
    assert rows["tune.threads"] == ("2", "environment", "TILEWRIGHT_THREADS")
    assert rows["tune.trials"] == (5, "file", "TILEWRIGHT_TRIALS")
    assert rows["tune.seed"] == (3, "file", None)
    assert rows["farm.address"] == (None, "default", "TILEWRIGHT_FARM")
    assert run(["config"]) == 0
    plain = capsys.readouterr().out
    assert "tune.seed" in plain
    assert "not set" in plain
    assert not any(secret in text for secret in ("sekrit", "sek@rit", "rit@h") for text in (out, plain))


def test_config_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.delenv("TILEWRIGHT_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert run(["config"]) == 0
    assert "(does not exist)" in " ".join(capsys.readouterr().out.split())  # however long the folder's name is
    assert run(["config", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert not data["exists"]
    assert data["settings"][0]["value"] == str(tmp_path / "tilewright" / "tilewright.db")
    assert data["settings"][0]["source"] == "default"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://u:p@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u:p/q?r@s@h/d", "postgresql://u:***@h/d"),
        ("postgresql://h/d?user=u&password=p&x=1", "postgresql://h/d?user=u&password=***&x=1"),
        ("postgresql://h/d?sslpassword=p&scram_client_key=k", "postgresql://h/d?sslpassword=***&scram_client_key=***"),
        ("postgresql://h:5432/d", "postgresql://h:5432/d"),
        ("tls://h:8786", "tls://h:8786"),
        ("/a/b.db", "/a/b.db"),
        (3, 3),
    ],
)
def test_passwords_in_urls_are_hidden(text: object, shown: object) -> None:
    assert config.hide(text) == shown


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TILEWRIGHT_THREADS", "many")
    assert run(["best", "matmul"]) == 2
    assert "TILEWRIGHT_THREADS" in capsys.readouterr().err


def test_the_documentation_names_every_setting() -> None:
    text = DOCS.read_text()
    for s in config.SETTINGS:
        assert f"`{s.variable}`" in text
        assert f"`{s.key}`" in text
    assert "config" in COMMANDS


def test_the_documented_example_is_valid(write: Write) -> None:
    example = DOCS.read_text().partition("```toml\n")[2].partition("```")[0]
    write(example)
    assert run(["config"]) == 0
