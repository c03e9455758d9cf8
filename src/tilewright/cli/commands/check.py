"""``tilewright check``: runs CUDA kernels on the emulator and compares their results with the reference."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.backends.cores import available_cores
from tilewright.cli.declare import declared, option, options, wants_json
from tilewright.cli.options import DTYPE, OP_IF_ANY, PARAMS, parse_params, refuse
from tilewright.cli.output import emit_json, program, report, say, seconds
from tilewright.cli.progress import Steps
from tilewright.cli.user_kernel import OwnKernel, user_kernel_of
from tilewright.core import Target, UsageError
from tilewright.kernels.operators import get_operator
from tilewright.units import counted

if TYPE_CHECKING:
    from tilewright.checking.check import Checked, Checker, Subject
    from tilewright.core import Workload
    from tilewright.kernels.operator import Operator
    from tilewright.kernels.templates.user_kernel import UserKernel

MOST_SHOWN = 10
MOST_COMBINATIONS = 64


def _list(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(x.strip() for x in value.split(",") if x.strip())) if value else ()


@declared("check")
def command(
    op: str | None = OP_IF_ANY,
    params: tuple[str, ...] = PARAMS,
    dtype: str | None = DTYPE,
    target: str | None = option(metavar="NAME", help="Target of the code: cuda:sm_80, ... [default: cuda:sm_90a]"),
    schedule: str | None = option(
        metavar="WHICH",
        help="Schedules to check: default, random:N, knob=value,knob=value, JSON, or @FILE with JSON. "
        "[default: default; all for a kernel of your own]",
    ),
    template: str | None = option(metavar="NAME", help="Check schedules of this template only."),
    sanitize: tuple[str, ...] = option(
        metavar="[LIST]",
        multiple=False,
        callback=_list,
        is_flag=False,
        flag_value="address,undefined,thread",
        help="Also run under sanitizers: address,undefined,thread; without a list all of them. A kernel of your own "
        "always runs under all of them, or under those of the list.",
    ),
    orders: tuple[str, ...] = option(
        metavar="LIST",
        multiple=False,
        callback=_list,
        help="Orders in which threads run, and when their asynchronous copies complete. "
        "[default: fifo/lazy,lifo/eager,random:SEED/lazy]",
    ),
    seed: int = option(low=0, default=0, help="Seed of random schedules and orders."),
    sass: bool = option(
        help="Run nothing: compile, and read from the machine code what the main loop executes and what bounds it."
    ),
    profile: bool = option(
        help="Count bank conflicts, sectors per request and idle pipeline stages. With --sass: read the counters of "
        "this machine's GPU (NVIDIA Nsight Compute)."
    ),
    emit: str | None = option(metavar="DIR", help="Write the kernel to DIR, to edit it and check it with --from."),
    source: str | None = option(
        "--from", metavar="DIR", help="Check the kernel in DIR, which --emit wrote and you may have edited."
    ),
    timeout: float = option(low=0.1, default=60.0, help="Seconds that one run may take."),
    jobs: int | None = option(low=1, help="Number of kernels that run at a time. [default: number of cores]"),
    force: bool = option(help="Check large sizes too, however long it takes."),
    own: OwnKernel = options(OwnKernel),
) -> int:
    """Check CUDA kernels without a GPU: run them on the emulator, and compare with the reference.

    OP is an operator, or a CUDA or C++ file with a kernel of your own, with the same options as in tune. The command
    then checks every combination of the knobs' values under all sanitizers.

    Each kernel runs in several thread orders, on random and on exact inputs. Exit code 0: all kernels are right; 1: a
    kernel has a bug (its kind, line, block and thread are printed); 3: something could not be checked, for example
    without a compiler.

    \b
    Examples:
      tilewright check matmul m=70 n=65 k=33 --target cuda:sm_90a
      tilewright check matmul m=96 n=80 k=72 --dtype float16 --schedule random:20 --sanitize address,thread
      tilewright check matmul m=64 n=64 k=64 --emit mine
      tilewright check --from mine --sanitize thread
      tilewright check matmul m=4096 n=4096 k=4096 --dtype bfloat16 --target cuda:sm_80 --sass
      tilewright check matmul m=4096 n=4096 k=4096 --dtype bfloat16 --sass --profile
      tilewright check dense.cu --entry dense --reference ref.py:dense --knob B=64,128 --grid "ceildiv(n, B)"
          --block B n=1000
    """
    from tilewright.checking.check import ORDERS, SANITIZERS, Checker, parse_orders, parse_sanitizers

    if sass and sanitize:
        raise UsageError("--sass runs nothing on the emulator, but --sanitize does", "Run two commands")
    reader = None
    if sass and profile:
        from tilewright.insight.counters import Reader

        reader = Reader.find(target or "cuda")
    orders = parse_orders(orders or tuple(o.replace("random:0", f"random:{seed}") for o in ORDERS))
    sanitize = parse_sanitizers(sanitize)
    operator = None
    if source is not None:
        given = {"OP": op, "--dtype": dtype, "--target": target, "--schedule": schedule, "--template": template,
                 "--emit": emit, **own.given()}  # fmt: skip
        refuse(given, "and --from are given together", "Remove it: --from reads everything from the folder")
        from tilewright.checking.files import load

        subjects = [load(Path(source))]
    else:
        if op is None:
            raise UsageError("no operator is given", "Name one (see: tilewright ops), or a folder with --from DIR")
        kernel = user_kernel_of(op, own)
        if kernel is not None:
            given = {"--template": template, "--emit": emit, "--with-templates": own.with_templates}
            refuse(given, f"is for kernels of templates, but {op} is a kernel of your own")
            if kernel.kind == "cpu" and (sass or profile):
                raise UsageError(
                    f"--sass and --profile are for CUDA kernels, but {kernel.label} is C++ for a CPU", "Remove them"
                )
            operator, sanitize = kernel.operator, sanitize or (() if sass else SANITIZERS)
            subjects = own_subjects(kernel, parse_params(params, dtype), target, schedule, seed)
        else:
            operator = get_operator(op)
            where = reader.place.target if reader is not None else cuda_target(target)
            subjects = _subjects(operator, params, dtype, where, schedule or "default", template, seed)
        if emit is not None:
            return _emit(subjects, Path(emit))
    if sass:
        from tilewright.cli.commands.check_sass import report_sass

        return report_sass(subjects, reader)
    _refuse_large(subjects, operator, sanitize, len(orders), force)
    workers = min(jobs or available_cores(), len(subjects))
    checker = Checker(subjects[0].workload, orders=orders, sanitize=sanitize, profile=profile, timeout=timeout)
    results, interrupted = _check(checker, subjects, workers)
    return _report(subjects, results, interrupted, orders, sanitize)


def cuda_target(name: str | None) -> Target:
    """The CUDA architecture that ``--target`` names; needs no device."""
    from tilewright.backends import BACKENDS, EMULATOR, get_backend

    emulator = get_backend(EMULATOR)
    kind, _, variant = (name or "cuda:sm_90a").partition(":")
    if kind not in emulator.kinds and (kind in BACKENDS or name == "auto"):
        raise UsageError(
            f"target {name} has no emulator",
            "Write --target cuda:sm_90a. Kernels for the CPU are checked by tilewright tune and tilewright verify",
        )
    known = {t.name: t for t in emulator.targets()}
    if f"{kind}:{variant}" not in known:
        raise UsageError(f"unknown target {name!r}", f"Use {', '.join(known)}")
    return known[f"{kind}:{variant}"]


def _subjects(
    operator: Operator, params: tuple[str, ...], dtype: str | None, where: Target, schedule: str,
    template: str | None, seed: int,
) -> list[Subject]:  # fmt: skip
    """The kernels of the requested schedules."""
    from tilewright.checking.check import subject_of
    from tilewright.checking.schedules import parse_schedules
    from tilewright.core import Candidate, Task

    task = Task(operator.workload(**parse_params(params, dtype)), where)
    _of_one_size(task.workload)
    chosen = parse_schedules(task, schedule, template, seed)
    if not chosen:
        raise UsageError(f"no schedule of {task.workload.label} is legal on {where.name}", "See: tilewright space")
    return [subject_of(Candidate(task, s)) for s in chosen]


def own_subjects(
    kernel: UserKernel, params: Mapping[str, str], target: str | None, schedule: str | None, seed: int
) -> list[Subject]:
    """A user's kernel with every combination of its knobs' values, or with the combinations that ``schedule`` names."""
    from tilewright.backends import get_backend
    from tilewright.checking.check import subject_of
    from tilewright.checking.schedules import parse_schedules
    from tilewright.core import Candidate, Task
    from tilewright.kernels.templates import get_template
    from tilewright.tuner.user_kernel import fit

    asked = kernel.target(target or "auto")
    if kernel.kind == "cpu":
        where = get_backend("cpu").parse_target("cpu" if asked == "auto" else asked)
    else:
        where = cuda_target(None if asked == "cuda" else asked)
    task = Task(kernel.operator.workload(**params), where)
    _of_one_size(task.workload)
    fit(kernel, task)
    if schedule is not None and schedule != "all":
        chosen = parse_schedules(task, schedule, kernel.name, seed)
    else:
        chosen = list(islice(get_template(kernel.name).space(task), MOST_COMBINATIONS + 1))
    if len(chosen) > MOST_COMBINATIONS:
        raise UsageError(
            f"{kernel.label} has more than {MOST_COMBINATIONS} combinations of knobs' values",
            f"Check some of them: --schedule random:{MOST_COMBINATIONS}",
        )
    return [subject_of(Candidate(task, s)) for s in chosen]


def _of_one_size(workload: Workload) -> None:
    for extent in workload.ranges.values():
        raise UsageError(
            f"check takes one size, but {extent!r} is a range",
            "Write one size. To check a range at several sizes: tilewright tune --device emulator",
        )


def _emit(subjects: list[Subject], folder: Path) -> int:
    from tilewright.checking.files import emit

    if len(subjects) > 1:
        raise UsageError(f"--emit writes one kernel, not {len(subjects)}", "Choose one with --schedule")
    kernel, launch = emit(subjects[0], folder, program())
    told = f"wrote {kernel} and {launch}; check them: {program()} check --from {folder}"
    report({"kernel": str(kernel), "launch": str(launch)}, told)
    return 0


def _refuse_large(
    subjects: list[Subject], operator: Operator | None, sanitize: tuple[str, ...], orders: int, force: bool
) -> None:
    from tilewright.checking import cost as check_cost
    from tilewright.checking.check import SETS, sanitizer_builds

    if force:
        return
    workload = subjects[0].workload
    builds = [(), *sanitizer_builds(sanitize)]
    took = check_cost.estimate(workload, builds, orders, len(SETS), len(subjects))
    one = check_cost.estimate(workload, builds, orders, len(SETS))
    large = check_cost.tensor_bytes(workload) > check_cost.MEMORY
    if one <= check_cost.LIMIT and not large:
        return
    hint = "Check smaller sizes, or add --force"
    if operator is not None:
        share = workload.flops * check_cost.LIMIT / 8 / one
        small = check_cost.smaller(operator, dict(workload.params), share)
        if small is not None:
            hint = f"Smaller sizes show the same bugs: {operator.name} {check_cost.sizes_text(small)}; or add --force"
    what = f"about {took / 60:.0f} minutes" if not large else f"more than {check_cost.MEMORY >> 30} GiB of memory"
    raise UsageError(f"{workload.label} would take {what} on the emulator", hint)


def _check(checker: Checker, subjects: list[Subject], workers: int) -> tuple[dict[int, Checked], bool]:
    """Checks kernels; returns the results by the kernel's number, and whether Ctrl-C ended the check early."""
    results: dict[int, Checked] = {}
    bugs = 0
    with Steps("checking", len(subjects)) as steps:
        try:
            for number, result in checker.check_all(subjects, workers):
                results[number] = result
                bugs += bool(result.findings)
                steps.step(f"{bugs} with bugs")
        except KeyboardInterrupt:
            return results, True
    return results, False


def _report(
    subjects: list[Subject], results: dict[int, Checked], interrupted: bool, orders: tuple[str, ...],
    sanitize: tuple[str, ...],
) -> int:  # fmt: skip
    done = [results[n] for n in sorted(results)]
    states = {s: sum(r.state == s for r in done) for s in ("right", "bug", "unchecked")}
    code = 130 if interrupted else 1 if states["bug"] else 3 if states["unchecked"] else 0
    if wants_json():
        emit_json(
            {
                "workload": subjects[0].workload.label,
                "target": subjects[0].target.name,
                "orders": list(orders),
                "sanitize": list(sanitize),
                "asked": len(subjects),
                "checked": len(done),
                **states,
                "interrupted": interrupted,
                "kernels": [r.to_json() for r in done],
            }
        )
    else:
        _print(subjects, done, states, orders, sanitize)
    if interrupted:
        with suppress(BrokenPipeError):
            say(f"stopped early; {len(done)} of {len(subjects)} kernels were checked")
    return code


def _print(
    subjects: list[Subject], done: list[Checked], states: dict[str, int], orders: tuple[str, ...],
    sanitize: tuple[str, ...],
) -> None:  # fmt: skip
    wrong = [r for r in done if r.findings]
    for r in wrong[:MOST_SHOWN]:
        _print_bugs(r)
    if len(wrong) > MOST_SHOWN:
        click.echo(f"... and {len(wrong) - MOST_SHOWN} more kernels with bugs (--json lists all)")
    for reason in dict.fromkeys(x for r in done for x in r.unchecked):
        click.echo(f"not checked: {reason}")
    for r in done:
        if r.profile:
            from tilewright.cli.commands.check_profile import print_profile

            print_profile(r)
    spent = {k: sum(r.seconds[k] for r in done) for k in ("build", "run")}
    runs = sum(r.runs for r in done)
    first = subjects[0]
    what = f"{first.workload.label} on {first.target.name}"
    verdict = ", ".join(f"{n} {s}" for s, n in (("right", states["right"]), ("with bugs", states["bug"]),
                                                  ("not fully checked", states["unchecked"])) if n)  # fmt: skip
    turns = "" if first.native else f" in {len(orders)} orders"
    watched = f", sanitizers {', '.join(sanitize)}" if sanitize else ""
    click.echo(
        f"{what}: {counted(len(done), 'kernel')}, {verdict or 'none checked'}. {runs} runs{turns}{watched}; "
        f"built in {seconds(spent['build'])}, ran {seconds(spent['run'])}."
    )


def _print_bugs(result: Checked) -> None:
    schedule = result.subject.schedule
    if schedule:
        click.echo(f"{schedule.template}: {' '.join(f'{k}={v}' for k, v in schedule.values.items())}")
    for f in result.findings:
        where = f" at {f.place}" if f.place else ""
        how = ", ".join(x for x in (f.order, f.inputs, f.sanitizer) if x)
        click.echo(f"  {f.kind}{where}: {f.message}{f' [{how}]' if how else ''}")
        if f.text:
            click.echo(f"    {f.line}: {f.text}")
