"""Stores and reads the best kernels of each task, and their compiled code."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, select, update

from tilewright.columns import named_pairs, workload_of
from tilewright.core import Task, UsageError, Value, Workload, canonical_json
from tilewright.database import rows, schema
from tilewright.database.errors import damaged
from tilewright.database.postgresql import take_turns
from tilewright.database.records import KERNEL_STATES, RANKS, StoredArtifact, StoredKernel
from tilewright.database.store import Store, keys_named, of_task

_TURNS = "kernels"


class Kernels(Store):
    """The methods of the database for best kernels and compiled code."""

    def set_kernels(
        self,
        task: Task,
        device_model: str,
        run_id: str | None,
        ranked: Sequence[StoredKernel],
        artifacts: Iterable[StoredArtifact] = (),
    ) -> None:
        """Replaces a task's kernels on a device model by ``ranked``, best first, in one transaction.

        Ranks follow the order. ``task``, ``device_model`` and, where a kernel names no run, ``run_id`` replace the
        kernels' own. ``artifacts``: the code that the database lacks. Code that no kernel refers to any more is
        removed. If two clients call this for one task, the later call's kernels stay. Raises ``UsageError`` for more
        than three kernels.
        """
        if len(ranked) > RANKS:
            raise UsageError(f"a task keeps {RANKS} kernels, not {len(ranked)}", "Pass the best ones only")
        if any(k.state not in KERNEL_STATES for k in ranked):
            raise UsageError("a kernel's state is verified or stale", "Pass one of these")
        bring = {a.sha256: a for a in artifacts}
        for brought in bring.values():
            if hashlib.sha256(brought.data).hexdigest() != brought.sha256:
                raise UsageError(f"the artifact {brought.sha256} does not hash to its name", "Build it again")
        now = time.time()
        placed = [
            replace(k, task=task, device_model=device_model, rank=i, run_id=k.run_id or run_id, updated=now)
            for i, k in enumerate(ranked, 1)
        ]
        used = {k.artifact_sha256 for k in placed}
        k, a = schema.kernel, schema.artifact

        def work(c: Connection) -> None:
            # One client at a time for all tasks: one client may remove code that another client is about to use.
            take_turns(c, _TURNS)
            rows.put_targets(c, [task.target, *(bring[sha256].target for sha256 in used & bring.keys())])
            rows.put_task(c, task)
            known = set(c.execute(select(a.c.sha256).where(a.c.sha256.in_(used))).scalars())
            missing = used - known - bring.keys()
            if missing:
                raise UsageError(f"the code of the artifact {min(missing)} is missing", "Pass it in artifacts")
            for sha256 in sorted(used - known):
                c.execute(a.insert(), rows.artifact_row(bring[sha256]))
            own = of_task(task.workload.key, task.target.key, device_model)
            replaced = set(c.execute(select(k.c.artifact_sha256).where(own)).scalars())
            c.execute(delete(k).where(own))
            if placed:
                c.execute(k.insert(), [rows.kernel_row(x) for x in placed])
            unused = ~select(k.c.rank).where(k.c.artifact_sha256 == a.c.sha256).exists()
            c.execute(delete(a).where(a.c.sha256.in_(replaced - used), unused))

        self._write(work)

    def best(self, task: Task, device_model: str | None = None) -> StoredKernel | None:
        """A task's best kernel on a device model, or the last stored best kernel of any device model. It may be
        stale."""
        given = {"workload": task.workload.key, "target": task.target.key}
        if device_model is not None:
            given["model"] = device_model
        found = self._kernels(_best(device_model is not None), given)
        return found[0] if found else None

    def task_kernels(self, task: Task, device_model: str) -> list[StoredKernel]:
        """A task's kernels on a device model, by rank."""
        return self._kernels(_kernels().where(of_task(task.workload.key, task.target.key, device_model)))

    def kernels(self, op: str | None = None, params: Mapping[str, Value] | None = None) -> list[StoredKernel]:
        """Stored kernels, the last changed task first, then by rank.

        ``op``: only kernels of this operator, even if its program was first stored under another name. ``params``: only
        kernels whose workload has these parameters and values.
        """
        if op is None:
            found = self._kernels(_kernels())
            names: dict[str, list[Workload]] = {}
        else:
            found = self._kernels(_kernels().where(schema.kernel.c.workload_key.in_(keys_named(op))))
            names = self._names(op, {k.task.workload.key: k.task.workload for k in found})
        asked = dict(params or {})
        out = []
        for kernel in found:
            own = kernel.task.workload
            for workload in names.get(own.key, [own]):
                if asked.items() <= dict(workload.params).items():
                    out.append(replace(kernel, task=Task(workload, kernel.task.target)))
                    break
        return out

    def _winners(self, op: str | None, limit: int | None = None) -> list[StoredKernel]:
        """The best kernel of each task and device model, the last changed first."""
        k = schema.kernel.c
        wanted = _kernels().where(k.rank == 1).limit(limit)
        return self._kernels(wanted if op is None else wanted.where(k.workload_key.in_(keys_named(op))))

    def _names(self, op: str, workloads: Mapping[str, Workload]) -> dict[str, list[Workload]]:
        """By workload key: the workload under each of its names that has the operator name ``op``."""
        s = schema.alias
        found = self._ask(select(s).where(s.c.op == op).order_by(s.c.created))
        names = {key: [w] if w.op == op else [] for key, w in workloads.items()}
        with rows.decoding(self.location, "alias"):
            for r in found:
                if r.workload_key in workloads:
                    params, defaults = named_pairs(r._mapping)
                    named = replace(workloads[r.workload_key], op=r.op, params=params, defaults=defaults)
                    names[r.workload_key].append(named)
        return names

    def _kernels(self, wanted: Select[Any], given: Mapping[str, str] | None = None) -> list[StoredKernel]:
        found = self._ask(wanted, given)
        tasks: dict[tuple[str, str], Task] = {}
        for r in found:
            key = (r.workload_key, r.target_key)
            if key not in tasks:
                with rows.decoding(self.location, "workload"):
                    workload = workload_of(r._mapping)
                with rows.decoding(self.location, "target"):
                    tasks[key] = Task(workload, rows.target_of(r.target_data))
        with rows.decoding(self.location, "kernel"):
            return [rows.kernel_of(r, tasks[r.workload_key, r.target_key]) for r in found]

    def update_kernel(self, kernel: StoredKernel, *, state: str) -> bool:
        """Stores a kernel's new state after a check. Returns ``False`` if another kernel has taken its rank
        meanwhile."""
        if state not in KERNEL_STATES:
            raise UsageError(f"a kernel cannot be {state!r}", f"Use one of {', '.join(KERNEL_STATES)}")
        k = schema.kernel
        same = (
            of_task(kernel.task.workload.key, kernel.task.target.key, kernel.device_model)
            & (k.c.rank == kernel.rank)
            & (k.c.artifact_sha256 == kernel.artifact_sha256)
            & (k.c.schedule == canonical_json(kernel.schedule.to_json()))
        )
        changed = update(k).where(same).values(state=state, updated=time.time())
        return bool(self._write(lambda c: c.execute(changed).rowcount))

    def artifact(self, sha256: str) -> StoredArtifact | None:
        """Compiled code by its SHA-256, checked against it; ``None`` if the database lacks it."""
        a, t = schema.artifact, schema.target
        wanted = select(a, t.c.data.label("target_data")).join(t, t.c.key == a.c.target_key)
        stored = self._ask(wanted.where(a.c.sha256 == sha256))
        if not stored:
            return None
        with rows.decoding(self.location, "artifact"):
            found = rows.artifact_of(stored[0])
        if hashlib.sha256(found.data).hexdigest() != sha256:
            raise damaged(self.location, f"the compiled code {sha256} was altered")
        return found


@lru_cache(maxsize=2)
def _best(on_model: bool) -> Select[Any]:
    """The query of :meth:`Kernels.best`. It is cached, because constructing it takes as long as running it."""
    k = schema.kernel.c
    wanted = _kernels().where(k.workload_key == bindparam("workload"), k.target_key == bindparam("target"), k.rank == 1)
    return (wanted.where(k.device_model == bindparam("model")) if on_model else wanted).limit(1)


@lru_cache(maxsize=1)
def _kernels() -> Select[Any]:
    """Query of kernels with their task and their artifact's compiler, the last changed task first, then by rank."""
    k, a, w, t = schema.kernel, schema.artifact, schema.workload, schema.target
    names = ("op", "params", "defaults", "param_names", "program", "inputs", "output", "flops", "precision")
    return (
        select(k, a.c.compiler, *(w.c[name] for name in names), t.c.data.label("target_data"))
        .join(a, a.c.sha256 == k.c.artifact_sha256)
        .join(w, w.c.key == k.c.workload_key)
        .join(t, t.c.key == k.c.target_key)
        .order_by(k.c.updated.desc(), k.c.workload_key, k.c.target_key, k.c.device_model, k.c.rank)
    )
