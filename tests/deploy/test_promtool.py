"""What promtool says of the metrics, the scrape configuration and the alerts: Debian's package ``prometheus`` has it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from deploy_files import DEPLOY
from test_grafana import AFarm

from harness.examples import example_artifact, example_kernel, example_schedule, example_task
from tilewright.core import Device, Failure, FailureKind, Proposal, TrialRecord
from tilewright.dashboard.metrics import Metrics
from tilewright.database import Database
from tilewright.database.transfer.garbage import collect

HERE = Path(__file__).parent
ALERTS = DEPLOY / "prometheus" / "alerts.yml"

pytestmark = pytest.mark.needs("promtool")


def promtool(*words: str | Path, given: bytes = b"") -> str:
    done = subprocess.run(
        ["promtool", *map(str, words)], input=given, capture_output=True, timeout=120, check=False
    )  # fmt: skip
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said


def test_promtool_accepts_a_scrape(tmp_path: Path) -> None:
    task, code = example_task(), example_artifact(b"code")
    with Database.open(tmp_path / "t.db") as db:
        db.set_kernels(task, "a model", None, [example_kernel(task, 0, code)], [code])
        text = Metrics(db, AFarm()).text()  # type: ignore[arg-type]
    assert promtool("check", "metrics", given=text) == ""


def test_promtool_accepts_the_alerts() -> None:
    assert f"{len(_alerts())} rules found" in promtool("check", "rules", ALERTS)


def test_the_scrape_configuration(tmp_path: Path) -> None:
    text = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
    for name in ("tilewright.token", "tilewright-ca.pem"):
        (tmp_path / name).write_text("x")
    (tmp_path / "prometheus.yml").write_text(text.replace("/etc/prometheus", str(tmp_path)))
    shutil.copy(ALERTS, tmp_path)
    assert "SUCCESS" in promtool("check", "config", "--syntax-only", tmp_path / "prometheus.yml")


def test_alerts_fire_and_keep_quiet() -> None:
    tests = HERE / "alerts_test.yml"
    tried = re.findall(r"alertname: (\w+)\n\s+exp_alerts:\n", tests.read_text())
    assert sorted(tried) == sorted(_alerts()), "each alert has to fire in a test"
    assert "SUCCESS" in promtool("test", "rules", tests)


def test_rows_that_are_removed_set_off_no_alert(tmp_path: Path) -> None:
    """Scrapes of a database of many wrong results from which ``db gc`` takes half, as Prometheus sees them."""
    wrong = Failure(FailureKind.WRONG_RESULT, "x")
    with Database.open(tmp_path / "t.db") as db:
        for m in (8, 16):
            run = db.add_run(example_task(m), Device("cpu:0", "a model"), "random", 0, 60, {}, {})
            made = [TrialRecord(n, Proposal(example_schedule(n), 0.5, "random"), wrong) for n in range(60)]
            db.add_trials(run, made)
            if m == 8:
                db.finish_run(run, "done", {})
        metrics = Metrics(db)
        scrapes = [metrics.text().decode()]
        assert collect(db, older_than=0.0).trials == 60
        metrics.answers.forget("text")
        scrapes.append(metrics.text().decode())
    before, after = (dict(re.findall(r"^(tilewright_\w*trials\w*\{.*\}) (\S+)$", s, re.MULTILINE)) for s in scrapes)
    removed = 'tilewright_stored_trials{outcome="wrong_result"}'
    assert (before[removed], after[removed]) == ("120.0", "60.0")
    series = [
        {"series": name.replace("{", '{instance="a",'), "values": f"{v}x45 {after[name]}x45"}
        for name, v in before.items()
    ]
    quiet = [{"eval_time": f"{n}m", "alertname": "TilewrightWrongResults", "exp_alerts": []} for n in (46, 60, 80)]
    file = tmp_path / "test.yml"
    file.write_text(
        yaml.safe_dump({
            "rule_files": [str(ALERTS)], "tests": [{"interval": "1m", "input_series": series, "alert_rule_test": quiet}]
        })
    )  # fmt: skip
    promtool("test", "rules", file)


def _alerts() -> list[str]:
    return [r["alert"] for g in yaml.safe_load(ALERTS.read_text())["groups"] for r in g["rules"]]
