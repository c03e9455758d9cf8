"""The contract of templates. Derive from :class:`TemplateContract` in a test module.

::

    class TestMyTemplate(TemplateContract):
        templates = ("mine",)
        programs = {"blur": my_blur_program}

Templates for GPUs have :class:`~tilewright.testing.cuda_template.CudaTemplateContract`.

The default schedules for one thread and for three threads, and sampled schedules for three threads, are compiled. They
run between guard zones, with a poisoned output and workspace, and their results are compared with the float64
reference. If both defaults print equal sources, only one default runs.
"""

from __future__ import annotations

import ctypes
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, TypeVar

import pytest

from tilewright.backends import get_backend
from tilewright.backends.cuda.archs import target as cuda_target
from tilewright.core import Candidate, IllegalSchedule, Launch, Schedule, Target, Task, TilewrightError, evaluate
from tilewright.kernels.expression.expr import Expr
from tilewright.kernels.expression.program import Program
from tilewright.kernels.kernel import CpuStatic, Emitted, Kernel
from tilewright.kernels.kernel.workspace import total
from tilewright.kernels.reference import evaluate as reference
from tilewright.kernels.templates import TEMPLATES, get_template
from tilewright.kernels.templates.base import LoweredKernel, Template
from tilewright.kernels.templates.cuda.launches import GlobalFunction
from tilewright.kernels.templates.partition.cuda import PartitionLaunch
from tilewright.kernels.templates.planned import KernelTemplate
from tilewright.search_space import SearchSpace
from tilewright.testing.catalogue import Build
from tilewright.testing.kernels import check, compile_kernels, launch_values, random_arrays, run_outputs, task_of
from tilewright.testing.programs import PROGRAMS

SAMPLES = 5
"""Number of schedules whose knobs are changed, in addition to the number of sampled schedules that run."""
MOVED = 16
"""Most knobs of a schedule that are changed."""
TOGETHER = 16
"""Kernels that are compiled as one unit; a pair with more kernels is a unit of its own."""
T = TypeVar("T")
PREFIX = re.compile(r"(p\d+\.)?(s\d+_)?")
"""Prefix of a knob's name that names its segment and stage."""


class PairContract:
    """Base that makes every matching pair of a template and a program a test of its own."""

    templates: tuple[str, ...] = ()
    programs: Mapping[str, Build] = PROGRAMS
    targets: tuple[str, ...] = ()
    """Targets to generate for, in tests with the fixture ``target_name``."""
    architecture: str = "sm_80"
    """GPU architecture for which GPU templates are tested."""
    schedules = 1
    """Number of sampled schedules that run for each program, in addition to the default schedules."""
    elsewhere: tuple[str, ...] = ()
    """Templates whose results other tests compare, for similar programs."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "template_name" in metafunc.fixturenames:
            metafunc.parametrize("template_name", self.templates)
        if "pair" not in metafunc.fixturenames:
            return
        run = "target_name" in metafunc.fixturenames
        pairs = [pair for pair in self._pairs() if not (run and pair[0] in self.elsewhere)]
        metafunc.parametrize("pair", [pytest.param(pair, id="-".join(pair)) for pair in pairs])
        if run:
            metafunc.parametrize("target_name", self.targets)

    @classmethod
    @cache
    def _pairs(cls) -> list[tuple[str, str]]:
        """The matching pairs, cached for all tests of a class."""
        pairs = [(name, label) for name in cls.templates for label in cls.programs]
        return [pair for pair in pairs if get_template(pair[0]).matches(cls().portable(pair)[2])]

    @classmethod
    def _together(cls, pair: tuple[str, str], build: Callable[[tuple[tuple[str, str], ...]], T]) -> T:
        """Builds a pair together with the pairs of its unit, which saves compiler starts and preludes.

        If a pair of the unit cannot be built, builds ``pair`` alone.
        """
        pairs = [p for p in cls._pairs() if p[0] not in cls.elsewhere]
        several = max(1, TOGETHER // (1 + cls.schedules))
        first = pairs.index(pair) // several * several
        try:
            return build(tuple(pairs[first : first + several]))
        except TilewrightError:
            return build((pair,))

    def portable(self, pair: tuple[str, str], threads: int = 1) -> tuple[Template, Program, Task]:
        """Template, program and task of a pair, on a target that needs no particular machine."""
        template = get_template(pair[0])
        program, task = _portable(
            self.programs[pair[1]], portable_target(template, threads, self.architecture), pair[1]
        )
        return template, program, task


class ScheduleContract(PairContract):
    """Tests of a template's search space, loop nests and sources, on every device, which run no kernel."""

    def test_the_default_is_in_the_space(self, pair: tuple[str, str]) -> None:
        template, _, task = self.portable(pair)
        default = template.default(task)
        template.space(task).check(default)
        assert (default.template, default.version) == (template.name, template.version)

    def test_foreign_schedules_are_refused(self, pair: tuple[str, str]) -> None:
        template, _, task = self.portable(pair)
        default = template.default(task)
        for broken in (
            Schedule(default.template, default.version, (*default.structure, ("no_such_knob", 1)), default.launch),
            Schedule(default.template, default.version, default.structure[1:], default.launch),
        ):
            with pytest.raises(IllegalSchedule):
                template.lower(Candidate(task, broken))
            with pytest.raises(IllegalSchedule):
                template.nests(task, broken)

    def test_the_launch_half_does_not_change_the_source(self, pair: tuple[str, str]) -> None:
        template, _, task = self.portable(pair)
        for schedule, moves in _moves(template.space(task), "launch", 2):
            kernel = template.lower(Candidate(task, schedule))
            for knob, moved in moves:
                assert kernel == template.lower(Candidate(task, moved)), (
                    f"another {knob} than in {dict(schedule.values)} prints another kernel"
                )

    def test_lowering_is_deterministic_and_uses_its_own_names(self, pair: tuple[str, str]) -> None:
        template, _, task = self.portable(pair)
        candidate = Candidate(task, template.default(task))
        kernel = template.lower(candidate)
        assert kernel == template.lower(candidate)
        assert kernel.symbol == candidate.symbol
        names = {a for x in kernel.program.every_launch for a in x.arguments}
        assert names <= {k for k, _ in candidate.schedule.launch}
        assert all(x.symbol.startswith(candidate.symbol) for x in kernel.program.every_launch)

    def test_nests_cover_every_point(self, pair: tuple[str, str]) -> None:
        template, _, task = self.portable(pair)
        space = template.space(task)
        rng = random.Random(3)
        for schedule in [template.default(task), *(space.sample(rng) for _ in range(5))]:
            for nest in template.nests(task, schedule):
                spans = dict(nest.axes)
                for loop in nest.loops:
                    assert loop.step >= 1
                    spans[loop.axis] = min(spans[loop.axis], loop.step)
                assert set(spans.values()) <= {1}, f"loops of {nest.name} leave {spans}"
                assert any(a.store for a in nest.accesses)

    def test_knobs_are_described(self, pair: tuple[str, str]) -> None:
        """Every knob that changes the source also changes the loop nests or the static features."""
        template, _, task = self.portable(pair, threads=3)
        for schedule, moves in _moves(template.space(task), "structure", SAMPLES + self.schedules):
            described = _described(template, task, schedule)
            for knob, moved in moves:
                if described == _described(template, task, moved):
                    texts = {_anonymous(template.lower(Candidate(task, s))) for s in (schedule, moved)}
                    assert len(texts) == 1, (
                        f"{knob} {schedule.values[knob]} -> {moved.values[knob]} changes the source, and neither the "
                        f"nests nor the static numbers of {dict(schedule.values)}"
                    )

    def test_launch_knobs_are_described(self, template_name: str) -> None:
        """Every launch knob changes the loop nests or the static features.

        A kernel may round the knobs' values, so not every change has an effect: at least one change of each knob must.
        """
        shown: set[str] = set()
        hidden: set[str] = set()
        for label in self.programs:
            template, _, task = self.portable((template_name, label), threads=3)
            if template.matches(task):
                for schedule, moves in _moves(template.space(task), "launch", SAMPLES + self.schedules):
                    described = _described(template, task, schedule)
                    for knob, moved in moves:
                        same = described == _described(template, task, moved)
                        (hidden if same else shown).add(PREFIX.sub("", knob))
        assert not hidden - shown, f"moving these knobs never changed nests or static numbers: {hidden - shown}"


class ResultContract(PairContract):
    """Tests of the results of CPU templates' kernels."""

    templates: tuple[str, ...] = tuple(n for n, t in TEMPLATES.items() if "cpu" in t.kinds)
    targets: tuple[str, ...] = ("auto",)
    """Targets to generate for; targets that this machine cannot run are skipped."""

    def test_every_schedule_computes_the_reference(self, pair: tuple[str, str], target_name: str) -> None:
        made = self._lowered(pair, target_name)
        library = self._together(pair, lambda pairs: self._unit(pairs, target_name))
        program = self.programs[pair[1]]()
        for seed in (0, 1):
            inputs = random_arrays(program, seed)
            expected = [(part, reference(part, inputs)) for part in program.of_each()]
            for candidate, kernel in made.items():
                threads, values = candidate.task.target.threads, launch_values(candidate)
                try:
                    got = run_outputs(library, kernel, values, inputs, candidate.task.workload.outputs, threads, seed)
                    for result, (part, right) in zip(got, expected, strict=True):
                        check(part, inputs, result, right)
                except AssertionError as error:
                    told = f"{pair} with {dict(candidate.schedule.values)}, threads={threads}"
                    raise AssertionError(f"{told}:\n{error}") from error

    @classmethod
    @cache
    def _lowered(cls, pair: tuple[str, str], target_name: str) -> dict[Candidate, LoweredKernel]:
        """The lowered schedules of a pair that run; schedules whose kernels differ only in names share a kernel."""
        template, program = get_template(pair[0]), cls.programs[pair[1]]()
        alone, three = (task_of(program, cls._target(template, target_name, n), pair[1]) for n in (1, 3))
        distinct: dict[str, LoweredKernel] = {}
        candidates = cls._candidates(template, alone, three, pair)
        return {
            c: distinct.setdefault(_anonymous(k), k)
            for c, k in zip(candidates, map(template.lower, candidates), strict=True)
        }

    @classmethod
    @cache
    def _unit(cls, pairs: tuple[tuple[str, str], ...], target_name: str) -> ctypes.CDLL:
        made = [cls._lowered(pair, target_name) for pair in pairs]
        target = next(iter(made[0])).task.target
        return compile_kernels([k for kernels in made for k in kernels.values()], target)

    @classmethod
    def _candidates(cls, template: Template, alone: Task, three: Task, pair: tuple[str, str]) -> list[Candidate]:
        space, rng = template.space(three), random.Random(str(pair))
        sampled = [Candidate(three, space.sample(rng)) for _ in range(cls.schedules)]
        one, shared = template.default(alone), template.default(three)
        defaults = [Candidate(alone, one), Candidate(three, shared)]
        if sampled and _extends(shared, one):
            # Both defaults print one source: the number of tasks is a number or an argument in it.
            several = any(one.values.get(k, 1) != v for k, v in shared.values.items())
            defaults = defaults[1:] if several else defaults[:1]
        return list(dict.fromkeys([*defaults, *sampled]))

    @staticmethod
    def _target(template: Template, name: str, threads: int) -> Target:
        backend = get_backend(template.kinds[0])
        if name == "auto":
            return backend.targets(threads)[0]
        found = backend.parse_target(name, threads, allow_foreign=True)
        if not backend.runs_here(found):
            pytest.skip(f"this machine cannot run {name}")
        return found


class KernelContract(PairContract):
    """Tests that a kernel's loops, launch, workspace and static features come from the value that prints its source.

    Each test changes a part of the value; the source printed from the changed value must change too.
    """

    def test_callers_see_functions_of_one_value(self, pair: tuple[str, str]) -> None:
        for template, task, schedule, kernel in self._kernels(pair):
            candidate = Candidate(task, schedule)
            assert repr(template.nests(task, schedule)) == repr(kernel.nests)
            assert template.static(task, schedule) == kernel.numbers
            assert template.lower(candidate) == kernel.lower(candidate.symbol)
            assert template.lower(candidate).program == kernel.program(candidate.symbol)

    def test_an_array_that_grows_moves_those_behind_it(self, pair: tuple[str, str]) -> None:
        for _, _, schedule, kernel in self._kernels(pair):
            names = {name: int(value) for name, value in schedule.launch}
            for n, array in enumerate(kernel.workspace):
                grown = replace(array, count=total(array.count, 4096))
                arrays = (*kernel.workspace.arrays[:n], grown, *kernel.workspace.arrays[n + 1 :])
                changed = replace(kernel, workspace=replace(kernel.workspace, arrays=arrays))
                sizes = [evaluate(k.program("tw").workspace, names) for k in (kernel, changed)]
                assert sizes[1] > sizes[0], f"the workspace does not grow with {array.name}"
                alone = n == len(kernel.workspace.arrays) - 1 and not array.copies
                assert alone or _differs(kernel, changed), f"the text knows the place of {array.name} by itself"

    def test_a_printed_loop_of_another_step_is_another_text(self, pair: tuple[str, str]) -> None:
        for _, _, _, kernel in self._kernels(pair):
            text = kernel.text
            if not isinstance(text, Emitted):
                continue
            for nest, loops in text.emit(kernel, "tw")[0].printed:
                if not any(nest is n for n in text.printed):
                    continue
                for loop in (x for x in loops if x.trips > 1 and x.argument is None and x in nest.loops):
                    doubled = tuple(replace(x, step=2 * x.step) if x is loop else x for x in nest.loops)
                    printed = tuple(replace(n, loops=doubled) if n is nest else n for n in text.printed)
                    changed = replace(kernel, text=replace(text, printed=printed))
                    assert loop.walked is not None or changed.nests != kernel.nests
                    assert _differs(kernel, changed), f"the text does not take the step of {loop} from {nest.name}"

    def test_another_list_of_arguments_is_another_text(self, pair: tuple[str, str]) -> None:
        for _, _, _, kernel in self._kernels(pair):
            for symbol, x, planted in _launched(kernel):
                changed = planted(replace(x, arguments=("before", *x.arguments)))
                (launch,) = (y for y in changed.program("tw").launches if y.symbol == f"tw{symbol}")
                given, own = ([PREFIX.sub("", a) for a in y.arguments] for y in (launch, x))
                assert given[: len(own) + 1] == ["before", *own]
                assert not x.arguments or _differs(kernel, changed)

    def test_a_launch_with_other_resources_is_another_text_and_has_other_features(self, pair: tuple[str, str]) -> None:
        for _, _, _, kernel in self._kernels(pair):
            for symbol, x, planted in _launched(kernel):
                if not isinstance(x, GlobalFunction):
                    continue
                grown = replace(x, threads=2 * x.threads, min_blocks=9, shared=x.shared + 64)
                changed = planted(grown)
                together = f" TW_CLUSTER({x.cluster})" if x.cluster > 1 else ""
                head = f"TW_KERNEL({grown.threads}, 9){together} void tw{symbol}("
                assert head in changed.lower("tw").source
                (launch,) = (y for y in changed.program("tw").launches if y.symbol == f"tw{symbol}")
                assert (launch.block[0], launch.shared) == (grown.threads, grown.shared)
                told, segment = changed.numbers, isinstance(kernel.launches[0], PartitionLaunch)
                assert symbol or (told["threads"], told["shared_bytes"]) == (grown.threads, grown.shared)
                assert symbol or segment or told["min_blocks"] == 9

    def test_a_launch_that_is_left_out_has_no_text_and_no_loops(self, pair: tuple[str, str]) -> None:
        for _, _, _, kernel in self._kernels(pair):
            for symbol, x, planted in _launched(kernel):
                if symbol and isinstance(x, GlobalFunction):
                    changed = planted()
                    assert f"tw{symbol}(" not in changed.lower("tw").source
                    assert len(changed.nests) == len(kernel.nests) - len(x.loops())

    def test_a_static_feature_that_is_not_there_is_another_text(self, pair: tuple[str, str]) -> None:
        for _, _, _, kernel in self._kernels(pair):
            known, text = kernel.static, kernel.lower("tw").source
            if not isinstance(known, CpuStatic) or not isinstance(kernel.text, Emitted):
                continue
            for name in ("prefetch", "prefetch_output", "streamed", "inverted"):
                if getattr(known, name) and ("prefetch" not in name or "__builtin_prefetch" in text):
                    without: dict[str, Any] = {name: 0}
                    changed = replace(kernel, static=replace(known, **without))
                    assert _differs(kernel, changed), f"the text does not take {name} from the static features"

    def _kernels(self, pair: tuple[str, str]) -> Iterator[tuple[KernelTemplate, Task, Schedule, Kernel]]:
        """Yields the kernels of the default schedule and of sampled schedules, for three threads."""
        template, _, task = self.portable(pair, threads=3)
        assert isinstance(template, KernelTemplate)
        space, rng = template.space(task), random.Random(str(pair))
        for schedule in dict.fromkeys([template.default(task), *(space.sample(rng) for _ in range(SAMPLES))]):
            yield template, task, schedule, template.kernel(task, schedule)


def _differs(kernel: Kernel, changed: Kernel) -> bool:
    """Whether a changed kernel prints a different source, or cannot be printed."""
    try:
        return changed.lower("tw").source != kernel.lower("tw").source
    except ValueError:
        return True


def _launched(kernel: Kernel) -> Iterator[tuple[str, Launch | GlobalFunction, Callable[..., Kernel]]]:
    """Yields each launch that is not joined with others: its symbol, the launch, and a function that replaces the
    launch by others in the kernel."""
    for n, own in enumerate(kernel.launches):
        ((number, x), *joined) = own.parts if isinstance(own, PartitionLaunch) else ((0, own),)
        assert isinstance(x, Launch | GlobalFunction)

        def planted(*others: Launch, n: int = n, number: int = number, own: object = own) -> Kernel:
            made = (replace(own, parts=((number, x),)) if isinstance(own, PartitionLaunch) else x for x in others)
            return replace(kernel, launches=(*kernel.launches[:n], *made, *kernel.launches[n + 1 :]))

        if not joined:
            yield own.symbol, x, planted


class TemplateContract(ScheduleContract, ResultContract):
    """Tests of CPU templates on small programs."""


@cache
def _portable(make: Callable[[], Program], target: Target, label: str) -> tuple[Program, Task]:
    # Cached, because every test of a contract is generated from all of its programs.
    program = make()
    return program, task_of(program, target, label)


def _moves(space: SearchSpace, half: str, samples: int) -> Iterator[tuple[Schedule, list[tuple[str, Schedule]]]]:
    """Yields sampled schedules, each with a list of variants: a knob's name, and the schedule with another legal value
    of that knob."""
    rng = random.Random(11)
    knobs = [k for k in space.knobs if k.half == half]
    for schedule in dict.fromkeys(space.sample(rng) for _ in range(samples if knobs else 0)):
        moves = []
        for knob in rng.sample(knobs, min(MOVED, len(knobs))):
            others = [v for v in knob.values if v != schedule.values[knob.name]]
            rng.shuffle(others)
            for value in others:
                try:
                    moved = space.schedule({**schedule.values, knob.name: value})
                except IllegalSchedule:
                    continue
                moves.append((knob.name, moved))
                break
        yield schedule, moves


def _extends(shared: Schedule, alone: Schedule) -> bool:
    """Whether the structure for several threads has the knobs for one thread, and all of its further knobs are off
    (0)."""
    more = dict(shared.structure)
    return all(more.pop(k, None) == v for k, v in alone.structure) and not any(more.values())


def _described(template: Template, task: Task, schedule: Schedule) -> tuple[object, ...]:
    """The loop nests and static features of a schedule, in comparable form."""
    nests = template.nests(task, schedule)
    accesses = [
        (a.tensor, tuple(map(_text, a.indices)), a.dtype, a.store, a.outside) for n in nests for a in n.accesses
    ]
    return tuple(replace(n, accesses=()) for n in nests), accesses, dict(template.static(task, schedule))


@lru_cache(maxsize=1 << 14)
def _text(e: Expr) -> str:
    return str(e)


def _anonymous(kernel: LoweredKernel) -> str:
    """A kernel's source and program with its symbol replaced."""
    return f"{kernel.source}{kernel.program}".replace(kernel.symbol, "kernel")


def portable_target(template: Template, threads: int = 1, architecture: str = "sm_80") -> Target:
    """A target of the template's kind that needs no particular machine; for GPU templates of ``architecture``."""
    if template.kinds[0] == "cuda":
        return cuda_target(architecture)
    return Target("cpu", "portable", "x86_64", (), 16, 16, threads)
