"""The command group: lazy commands, uniform errors and exit codes.

Exit codes: 0 success; 1 failure, or the requested item is not stored; 2 usage; 3 could not check; 130 after Ctrl-C and
143 after SIGTERM, with all measurements stored.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import click

from tilewright.cli.lazy import LazyGroup
from tilewright.cli.output import emit_error
from tilewright.core import TilewrightError

SECTIONS = {
    "Tune and use": {
        "tune": "Search for the fastest kernel of an operator.",
        "best": "Show the fastest stored kernel of an operator.",
        "kernels": "List the stored kernels, the fastest of each task.",
        "bench": "Compare the tuned kernel with other libraries, timed in turns.",
        "ops": "List the operators.",
        "space": "Show an operator's search space: its knobs, and one schedule.",
        "verify": "Rebuild, check and time stored kernels with the installed compiler.",
    },
    "Look at runs": {
        "runs": "List tuning runs, newest first.",
        "show": "Show one run: best time so far, trials and failures.",
        "explain": "Explain one run: what bounds the winner, which knobs matter, what to try next.",
        "plot": "Draw charts of a run: best time so far, roofline, importance and more.",
        "dashboard": "Serve web pages and metrics of runs, kernels and the farm.",
    },
    "Serve kernels and models": {
        "misses": "List look-ups of programs that found no tuned kernel.",
        "lock": "Write a lock file, which pins Library to the kernels stored now.",
        "bundle": "Build, sign, inspect, verify and export bundles of kernels.",
        "extract": "List the tasks of an ONNX model, to tune them.",
        "run": "Run an ONNX model with tuned kernels, and check its outputs.",
    },
    "GPUs": {
        "check": "Check CUDA kernels on the emulator, without a GPU.",
        "prepare": "Rank and compile kernels for a GPU on a machine without one.",
    },
    "Farms, databases, settings": {
        "farm": "Run a farm of devices: processes, certificates and status.",
        "db": "Upgrade, export, import, merge, shrink and back up databases.",
        "cache": "Show or shrink the artifact cache.",
        "model": "Train, evaluate, export or import the cost model of a database.",
        "config": "Show the settings in force, and where each comes from.",
        "completion": "Print the script that adds completion to a shell.",
        "doctor": "Check the installation: packages, compilers and devices.",
    },
}
"""The commands with their one-line help, under the headings of the help. ``cli/commands/NAME.py`` defines
``command``."""
COMMANDS = {name: text for section in SECTIONS.values() for name, text in section.items()}

_NOTHING_ASKED: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())  # click before 8.2 prints the help itself


class Terminated(KeyboardInterrupt):
    """Raised at SIGTERM, which is handled like Ctrl-C."""


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        from tilewright import __version__

        click.echo(f"tilewright {__version__}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    lazy={name: (f"commands.{name}", "command", text) for name, text in COMMANDS.items()},
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
@click.pass_context
def app(ctx: click.Context) -> None:
    """Tune tensor kernels for a processor or GPU, and serve the tuned kernels.

    \b
    Begin with:
      tilewright tune matmul m=512 n=512 k=512 --trials 64
      tilewright bench matmul m=512 n=512 k=512 --against numpy,openblas
      tilewright explain last
      tilewright ops                 lists the operators; your own: FILE.py:function
    """
    from tilewright.cli.commands.config import configure

    configure(ctx)


def run(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code. Known errors become one line, never a traceback.

    A closed output pipe (``| head``) is not an error.
    """
    try:
        return _run(arguments)
    except (BrokenPipeError, SystemExit):  # click turns a BrokenPipeError into a SystemExit
        return 0
    finally:
        for name in ("stdout", "stderr"):  # Python would flush at exit, fail there, and exit with code 120
            try:
                getattr(sys, name).flush()
            except BrokenPipeError:
                setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def _run(arguments: list[str] | None) -> int:
    args = sys.argv[1:] if arguments is None else arguments
    json_mode = "--json" in args

    terminated = False

    def terminate(_signum: int, _frame: Any) -> None:
        nonlocal terminated
        terminated = True
        raise Terminated

    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        result = app.main(args=args, prog_name="tilewright", standalone_mode=False)
        code = result if isinstance(result, int) else 0
        # A command that ended in good order after a signal does not know which signal it was.
        return 143 if code == 130 and terminated else code
    except click.exceptions.Exit as e:
        return e.exit_code
    except click.UsageError as e:
        if isinstance(e, _NOTHING_ASKED) and e.ctx is not None:
            # The program's name alone prints the help and succeeds; after a group's name a command is missing.
            click.echo(e.ctx.get_help(), err=json_mode)
            return 2 if e.ctx.parent is not None else 0
        hint = f"See: {e.ctx.command_path} --help" if e.ctx else "See: tilewright --help"
        emit_error(json_mode, "usage", e.format_message().rstrip("."), hint)
        return 2
    except click.ClickException as e:
        emit_error(json_mode, "error", e.format_message(), "")
        return 1
    except TilewrightError as e:
        emit_error(json_mode, e.kind, e.message, e.hint)
        return e.exit_code
    except (KeyboardInterrupt, click.Abort) as e:
        by_signal = isinstance(e, Terminated)
        kind, what = ("terminated", "SIGTERM") if by_signal else ("interrupted", "Ctrl-C")
        emit_error(
            json_mode, kind, f"stopped by {what}", "All measurements are stored. Continue a run with --resume last"
        )
        return 143 if by_signal else 130
    finally:
        signal.signal(signal.SIGTERM, previous)
