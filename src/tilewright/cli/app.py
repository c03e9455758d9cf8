"""The command group: lazy commands, uniform errors and exit codes.

Exit codes: 0 done; 1 failure; 2 usage; 3 could not check; 130 after Ctrl-C and 143 after SIGTERM, with everything
measured stored.
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
        "best": "Show the best stored kernel of an operator.",
        "kernels": "List the stored kernels, the best of each task.",
        "bench": "Compare the tuned kernel with other libraries, paired in one run.",
        "ops": "List the operators.",
        "space": "Show an operator's schedule space.",
        "verify": "Re-check and re-time stored kernels with the present compiler.",
    },
    "See what tuning does": {
        "runs": "List tuning runs, newest first.",
        "show": "Show one run: its best-so-far curve, trials and failures.",
        "explain": "Say what bounds a run's winner, which knobs mattered, and what to try next.",
        "plot": "Draw a run as a picture: best so far, roofline, importance and more.",
        "dashboard": "Show runs, kernels and the farm as web pages, and metrics.",
    },
    "Programs that use kernels": {
        "misses": "List what programs asked for and did not have.",
        "lock": "Write down which kernel answers each task, for libraries that are pinned to it.",
        "bundle": "Build, sign, inspect, verify and export bundles: one file of kernels.",
        "extract": "List what an ONNX model computes, as tasks to tune.",
        "run": "Run an ONNX model with tuned kernels, checked against onnxruntime.",
    },
    "GPUs": {
        "check": "Run CUDA kernels on the emulator and say whether they are right.",
        "prepare": "Rank and compile kernels for a GPU where there is none.",
    },
    "Farms, databases, settings": {
        "farm": "Tune on a farm of devices: its processes, certificates and status.",
        "db": "Upgrade, export, import, merge, shrink and back up databases.",
        "cache": "Inspect or shrink the artifact cache.",
        "model": "Train, judge, export or import the cost model that runs start from.",
        "config": "Show the settings in force and where each comes from.",
        "completion": "Print the script that makes a shell complete commands, operators and runs.",
        "doctor": "Say what is installed, what the machine is, and what would be used.",
    },
}
"""The headings of the help, and the commands below each with their one-line help: ``cli/commands/NAME.py`` defines
``command``."""
COMMANDS = {name: text for section in SECTIONS.values() for name, text in section.items()}

_NOTHING_ASKED: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())  # click before 8.2 prints the help itself


class Terminated(KeyboardInterrupt):
    """SIGTERM, handled like Ctrl-C."""


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
    """Tune tensor kernels for this machine, and use what was tuned.

    \b
    Begin with:
      tilewright tune matmul m=512 n=512 k=512 --trials 64
      tilewright bench matmul m=512 n=512 k=512 --against numpy,openblas
      tilewright explain last
      tilewright ops                 what can be tuned; your own: FILE.py:function
    """
    from tilewright.cli.commands.config import configure

    configure(ctx)


def run(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code. Known errors become one line, never a traceback.

    That the reader of its output went away (``| head``) is no error of a command's.
    """
    try:
        return _run(arguments)
    except (BrokenPipeError, SystemExit):  # click makes the one into the other
        return 0
    finally:
        for name in ("stdout", "stderr"):  # what is left would be written at exit, and fail there with code 120
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
        # A command that ended in good order after a signal does not know which one it was.
        return 143 if code == 130 and terminated else code
    except click.exceptions.Exit as e:
        return e.exit_code
    except click.UsageError as e:
        if isinstance(e, _NOTHING_ASKED) and e.ctx is not None:
            # The help is the answer to the program's name alone; after a group's name a command is missing.
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
        emit_error(json_mode, kind, f"Stopped by {what}", "What was measured is stored; go on with --resume last")
        return 143 if by_signal else 130
    finally:
        signal.signal(signal.SIGTERM, previous)
