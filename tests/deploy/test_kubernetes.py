"""The manifests: what pods may do, who reaches whom, that names agree, and that their commands exist."""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from deploy_files import (
    DASHBOARD_PORT,
    DEPLOY,
    PORT,
    ROOT,
    ROUTES_PORT,
    UID,
    at,
    parse_command,
    paths,
    read_dockerfile,
    refused,
    targets,
)

import tilewright
from tilewright.farm import budgets

FOLDER = DEPLOY / "kubernetes"
NAMESPACE = "tilewright"
VERSION = "1.37"
COMPONENT = "app.kubernetes.io/component"
WORKLOADS = {
    "tilewright-server": ("StatefulSet", "server", "tilewright-server"),
    "tilewright-builder": ("Deployment", "builder", "tilewright-builder"),
    "tilewright-runner-cpu": ("Deployment", "runner", "tilewright-cpu"),
    "tilewright-runner-cuda": ("DaemonSet", "runner", "tilewright-cuda"),
    "tilewright-dashboard": ("Deployment", "dashboard", "tilewright-dashboard"),
}
Doc = dict[str, Any]


@functools.cache
def manifests() -> list[Doc]:
    """Every object of every file but the kustomization."""
    return [
        doc
        for path in sorted(FOLDER.glob("*.yaml"))
        if path.name != "kustomization.yaml"
        for doc in yaml.safe_load_all(path.read_text())
    ]


def kustomization() -> Doc:
    found: Doc = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    return found


def of(docs: list[Doc], *kinds: str) -> list[Doc]:
    return [d for d in docs if d["kind"] in kinds]


def pod(workload: Doc) -> Doc:
    found: Doc = workload["spec"]["template"]
    return found


# --------------------------------------------------------------------------- what a pod may do

POD = {
    ("automountServiceAccountToken",): False,
    ("enableServiceLinks",): False,
    ("securityContext", "runAsNonRoot"): True,
    ("securityContext", "runAsUser"): UID,
    ("securityContext", "runAsGroup"): UID,
    # Without a group, a pod that is not root could not read a Secret's files of mode 0400.
    ("securityContext", "fsGroup"): UID,
    ("securityContext", "seccompProfile"): {"type": "RuntimeDefault"},
}
CONTAINER = {
    ("securityContext",): {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    },
}
FORBIDDEN = {
    "hostNetwork", "hostPID", "hostIPC", "hostPath", "hostPort", "privileged", "serviceAccountName", "initContainers",
    "ephemeralContainers", "add", "procMount", "nodePort", "externalIPs", "command", "lifecycle", "envFrom",
}  # fmt: skip


DATABASE = {
    name: {"secretKeyRef": {"name": "tilewright-dashboard-db", "key": key}}
    for name, key in (("TILEWRIGHT_DB", "url"), ("TILEWRIGHT_DB_PASSWORD", "password"))
}


def environment(container: Doc) -> dict[str, str]:
    """What a container sees. Where a value is a Secret's, a sample; a Secret that is not known raises ``KeyError``."""
    node, name = ({"fieldRef": {"fieldPath": path}} for path in ("spec.nodeName", "metadata.name"))
    known = [
        (node, "node-1"),
        (name, "tilewright-server-1"),
        *((DATABASE[name], f"sample of {name}") for name in DATABASE),
    ]
    out = {}
    for e in container.get("env", ()):
        sample = next((s for source, s in known if e.get("valueFrom") == source), None)
        out[e["name"]] = e["value"] if sample is None else sample
    return out


def pod_problems(workload: Doc) -> list[str]:
    name = workload["metadata"]["name"]
    _, role, image = WORKLOADS[name]
    spec = pod(workload)["spec"]
    out = [f"{'.'.join(p)} is {at(spec, p)}" for p, v in POD.items() if at(spec, p) != v]
    if len(spec["containers"]) != 1:
        return [*out, "it has more than one container"]
    container = spec["containers"][0]
    if container.get("name") != role:
        out.append(f"its container is named {container.get('name')}")
    out += [f"{'.'.join(p)} is {at(container, p)}" for p, v in CONTAINER.items() if at(container, p) != v]
    probes = {("livenessProbe", "exec", "command"), ("readinessProbe", "exec", "command")}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": workload["spec"]["selector"]}
    ]}}  # fmt: skip
    if spec.get("affinity") != (apart if role == "server" else None):
        out.append("two servers may be lost at once")
    found = [p for p in paths(spec) if p[-1] in FORBIDDEN and p[2:] not in probes]
    out += [f"{'.'.join(map(str, p))} is not for it" for p in found]
    if container.get("image") != image:
        out.append(f"it runs {container.get('image')}")
    for what in ("cpu", "memory"):
        if not at(container, ("resources", "limits", what)) or not at(container, ("resources", "requests", what)):
            out.append(f"nothing limits its {what}")
    out += volume_problems(role, spec, container)
    return out + command_problems(role, spec, container)


def volume_problems(role: str, spec: Doc, container: Doc) -> list[str]:
    """Certificates are secrets of the role's own, read-only; the rest is the pod's own and bounded."""
    out = []
    volumes = {v["name"]: {k: w for k, w in v.items() if k != "name"} for v in spec.get("volumes", ())}
    mounts = {m["mountPath"]: m for m in container.get("volumeMounts", ())}
    secret = {"secret": {"secretName": f"tilewright-{role}-certs", "defaultMode": 0o400}}
    wanted: dict[str, Any] = {"/certs": secret, "/tmp": "emptyDir"}
    if role == "server":
        wanted["/probe"] = {"secret": {"secretName": "tilewright-probe-certs", "defaultMode": 0o400}}
        volumes["state"] = {"claim": "state"}  # a server's own, which the StatefulSet makes
        wanted["/state"] = {"claim": "state"}
    elif role == "dashboard":
        for path in ("token", "tls", "db"):
            wanted[f"/{path}"] = {"secret": {"secretName": f"tilewright-dashboard-{path}", "defaultMode": 0o400}}
        wanted["/db"]["secret"]["items"] = [{"key": "ca.pem", "path": "ca.pem"}]  # not the password
    else:
        wanted["/cache"] = "emptyDir"
    if set(mounts) != set(wanted) or len(volumes) != len(wanted):
        return [f"it has {sorted(mounts)} and not {sorted(wanted)}"]
    for path, want in wanted.items():
        there = volumes.get(mounts[path].get("name"))
        if want == "emptyDir":
            if not at(there, ("emptyDir", "sizeLimit")):
                out.append(f"{path} is {there}")
        elif there != want:
            out.append(f"{path} is {there}")
        if "secret" in want and mounts[path].get("readOnly") is not True:
            out.append(f"{path} can be written")
    return out


def command_problems(role: str, spec: Doc, container: Doc) -> list[str]:
    given = environment(container)
    words = [re.sub(r"\$\((\w+)\)", lambda m: given.get(m[1], m[0]), str(w)) for w in container.get("args", ())]
    command = ["dashboard"] if role == "dashboard" else ["farm", role]
    if words[: len(command)] != command or any("$" in w for w in words):
        return [f"it runs {words}"]
    if why := refused(words, given):
        return [why]
    values = parse_command(words, given)
    out = [] if str(values["certs"]) == "/certs" else ["it does not use its certificates"]
    address = f"tls://{'localhost' if role == 'server' else 'tilewright-server'}:{PORT}"
    if given.get("TILEWRIGHT_FARM") != address:
        out.append(f"it looks for the server at {given.get('TILEWRIGHT_FARM')}")
    if spec.get("terminationGracePeriodSeconds", 30) <= values.get("drain_seconds", 60):
        out.append("it is killed before it has drained")
    if role == "server":
        out += server_problems(container, values, given)
    elif role == "dashboard":
        out += dashboard_problems(container, values)
    elif "ports" in container:
        out.append("it listens")
    elif at(container, ("resources", "requests", "cpu")) != at(container, ("resources", "limits", "cpu")):
        out.append("it has no whole cores")
    return out


SERVERS = tuple(f"tilewright-server-{n}.tilewright-servers:{ROUTES_PORT}" for n in range(3))


def server_problems(container: Doc, values: Mapping[str, Any], given: Mapping[str, str]) -> list[str]:
    """What a server lacks of where it listens, of the others, and of probes."""
    wanted = {
        "host": "0.0.0.0", "port": PORT, "state": "/state", "cluster": "tilewright", "listen": SERVERS[1],
        "routes": SERVERS, "let_in": None, "replicas": None,
    }  # fmt: skip
    out = [f"its {k} is {values[k]}, not {v}" for k, v in wanted.items() if str(values[k]) != str(v)]
    ports = {"farm": PORT, "routes": ROUTES_PORT}
    if container.get("ports") != [{"name": n, "protocol": "TCP", "containerPort": p} for n, p in ports.items()]:
        out.append("it does not listen where it says")
    if not 4 < values["storage"] < 8:
        out.append("its disk is not its own to fill")
    for probe in ("livenessProbe", "readinessProbe"):
        asked = at(container, (probe, "exec", "command"), [])
        if asked[:3] != ["tilewright", "farm", "ping"] or refused(asked[1:], given) or "/probe" not in asked:
            out.append(f"its {probe} is {asked}")
        if at(container, (probe, "timeoutSeconds"), 1) <= 10:
            out.append(f"its {probe} ends before the question does")
    if (
        at(container, ("livenessProbe", "periodSeconds"), 1) * at(container, ("livenessProbe", "failureThreshold"), 1)
        < 600
    ):
        out.append("it is restarted while it waits for the others")
    return out


NAMES = ("tilewright-dashboard", "tilewright-dashboard.tilewright.svc")
"""Under which pods ask the dashboard."""


def dashboard_problems(container: Doc, values: Mapping[str, Any]) -> list[str]:
    """What the dashboard lacks of a login, encryption and its database, and whether its probes need none of them."""
    wanted = {
        "host": "0.0.0.0", "port": DASHBOARD_PORT, "token_file": "/token/token", "tls_cert": "/tls/tls.crt",
        "tls_key": "/tls/tls.key", "behind_proxy": False, "allow_host": NAMES, "db": "sample of TILEWRIGHT_DB",
    }  # fmt: skip
    out = [f"its {k} is {values[k]}, not {v}" for k, v in wanted.items() if str(values[k]) != str(v)]
    if environment(container).get("TILEWRIGHT_DB_PASSWORD") != "sample of TILEWRIGHT_DB_PASSWORD":
        out.append("it does not know the database's password")
    if container.get("ports") != [{"name": "https", "protocol": "TCP", "containerPort": DASHBOARD_PORT}]:
        out.append("it does not listen where it says")
    for probe in ("livenessProbe", "readinessProbe"):
        if at(container, (probe, "httpGet")) != {"scheme": "HTTPS", "path": "/login", "port": "https"}:
            out.append(f"its {probe} is {at(container, (probe,))}")
        if at(container, (probe, "timeoutSeconds"), 1) <= 10:
            out.append(f"its {probe} ends before a page does")
    return out


# --------------------------------------------------------------------------- who reaches whom

REACHED = {
    "default-deny": ["every pod: no Ingress, no Egress"],
    "server-ingress": [
        "server from builder|client|dashboard|runner: TCP 8786",
        "server from server: TCP 8787",
    ],
    "server-egress": [
        "server to server: TCP 8787",
        "server to k8s-app=kube-dns of kubernetes.io/metadata.name=kube-system: TCP 53, UDP 53",
    ],
    "peers-egress": [
        "builder|client|dashboard|runner to server: TCP 8786",
        "builder|client|dashboard|runner to k8s-app=kube-dns of kubernetes.io/metadata.name=kube-system: TCP 53, UDP 53",
    ],
    "dashboard": [
        "dashboard from every pod of tilewright/dashboard=allowed: TCP 8765",
        "dashboard to app.kubernetes.io/name=postgresql of every namespace: TCP 5432",
    ],
}
"""What each policy lets through. A component is one of ours: pods with another name are selected by none."""


def told(selector: Doc, everything: str) -> str:
    """A label selector in words."""
    labels = dict(selector.get("matchLabels", {}))
    for e in selector.get("matchExpressions", ()):
        assert e["operator"] == "In"
        labels[e["key"]] = "|".join(sorted(e["values"]))
    if COMPONENT in labels and labels.pop("app.kubernetes.io/name", None) == "tilewright":
        return str(labels.pop(COMPONENT)) + "".join(f" {k}={v}" for k, v in labels.items())
    return " ".join(f"{k}={v}" for k, v in labels.items()) or everything


def reached(spec: Doc) -> list[str]:
    """A network policy's rules in words, one for each end that they name."""
    out, who = [], told(spec["podSelector"], "every pod")
    for kind, rules, ends, word in (("Ingress", "ingress", "from", "from"), ("Egress", "egress", "to", "to")):
        assert (rules in spec) <= (kind in spec["policyTypes"])
        for rule in spec.get(rules, ()):
            ports = ", ".join(sorted(f"{p.get('protocol', 'TCP')} {p['port']}" for p in rule.get("ports", ())))
            for end in rule.get(ends, [{"anyone": {}}]):
                assert set(end) <= {"podSelector", "namespaceSelector"}, end
                there = told(end.get("podSelector", {}), "every pod")
                if "namespaceSelector" in end:
                    there += f" of {told(end['namespaceSelector'], 'every namespace')}"
                out.append(f"{who} {word} {there}: {ports or 'every port'}")
    return out or [f"{who}: {', '.join(f'no {kind}' for kind in spec['policyTypes'])}"]


def test_nothing_else_reaches_anything() -> None:
    policies = of(manifests(), "NetworkPolicy")
    assert {p["metadata"]["name"]: reached(p["spec"]) for p in policies} == REACHED
    assert {p["metadata"]["namespace"] for p in policies} == {NAMESPACE}


def named(docs: list[Doc]) -> list[tuple[str, Doc]]:
    return [(d["metadata"]["name"], d) for d in of(docs, "Deployment", "DaemonSet", "StatefulSet")]


# --------------------------------------------------------------------------- whether names agree


def naming_problems(docs: list[Doc]) -> list[str]:
    out = []
    workloads = dict(named(docs))
    if {n: d["kind"] for n, d in workloads.items()} != {n: kind for n, (kind, _, _) in WORKLOADS.items()}:
        return [f"the workloads are {sorted(workloads)}"]
    spaces = of(docs, "Namespace")
    if [s["metadata"]["name"] for s in spaces] != [NAMESPACE]:
        out.append("there is no namespace")
    elif at(spaces[0], ("metadata", "labels", "pod-security.kubernetes.io/enforce")) != "restricted":
        out.append("the cluster does not hold the pods to it")
    out += [
        f"{d['kind']} {d['metadata']['name']} is elsewhere"
        for d in docs
        if d["kind"] != "Namespace" and d["metadata"].get("namespace") != NAMESPACE
    ]
    for name, workload in workloads.items():
        labels, selector = pod(workload)["metadata"]["labels"], workload["spec"]["selector"]
        if selector != {"matchLabels": labels}:
            out.append(f"{name} does not select its pods")
        if labels.get(COMPONENT) != WORKLOADS[name][1] or labels.get("app.kubernetes.io/name") != "tilewright":
            out.append(f"{name} is labelled {labels}")
    out += service_problems(docs, workloads)
    servers = workloads["tilewright-server"]["spec"]
    if (servers.get("replicas"), servers.get("podManagementPolicy")) != (len(SERVERS), "Parallel"):
        out.append("the servers wait for each other, or are not three")
    claims = {c["metadata"]["name"]: at(c, ("spec", "resources", "requests")) for c in servers["volumeClaimTemplates"]}
    if claims != {"state": {"storage": "8Gi"}} or of(docs, "PersistentVolumeClaim"):
        out.append("a server's state has no place")
    return out + budget_problems(docs, workloads) + gpu_problems(workloads["tilewright-runner-cuda"])


SERVICES = {
    "tilewright-server": ("farm", PORT, "tilewright-server"),
    "tilewright-servers": ("routes", ROUTES_PORT, "tilewright-server"),
    "tilewright-dashboard": ("https", DASHBOARD_PORT, "tilewright-dashboard"),
}


def service_problems(docs: list[Doc], workloads: Mapping[str, Doc]) -> list[str]:
    services = {s["metadata"]["name"]: s["spec"] for s in of(docs, "Service")}
    if sorted(services) != sorted(SERVICES) or len(of(docs, "Service")) != len(SERVICES):
        return [f"the services are {sorted(services)}"]
    out = []
    for name, (port, number, workload) in SERVICES.items():
        ports = [{"name": port, "protocol": "TCP", "port": number, "targetPort": port}]
        own = {"selector": pod(workloads[workload])["metadata"]["labels"], "ports": ports, "type": "ClusterIP"}
        if name == workloads[workload]["spec"].get("serviceName"):  # servers find each other before they are ready
            del own["type"]
            own |= {"publishNotReadyAddresses": True, "clusterIP": "None"}
        if services[name] != own:
            out.append(f"the service {name} is {services[name]}")
    return out


def budget_problems(docs: list[Doc], workloads: Mapping[str, Doc]) -> list[str]:
    budgets = {b["metadata"]["name"]: b["spec"] for b in of(docs, "PodDisruptionBudget")}
    bounded = ("tilewright-server", "tilewright-builder", "tilewright-runner-cpu")  # a DaemonSet's pods are not evicted
    wanted = {n: {"maxUnavailable": 1, "selector": workloads[n]["spec"]["selector"]} for n in bounded}
    return [] if budgets == wanted else [f"disruptions are bounded as {budgets}"]


def gpu_problems(workload: Doc) -> list[str]:
    spec = pod(workload)["spec"]
    gpu = at(spec, ("containers", 0, "resources", "limits", "nvidia.com/gpu"))
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    there = spec.get("nodeSelector") == {"nvidia.com/gpu.present": "true"} and spec.get("tolerations") == [toleration]
    return [] if gpu == 1 and there else ["it does not get a GPU"]


# --------------------------------------------------------------------------- tests


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda p: p.name)
def test_kubernetes_takes_the_manifests(path: Path) -> None:
    """By the API's own schema, where nothing unknown may be."""
    for doc in yaml.safe_load_all(path.read_text()):
        if path.name != "kustomization.yaml":
            kubernetes_validate.validate(doc, VERSION, strict=True)
    doc = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"port": []}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(doc, VERSION, strict=True)


def test_names_of_the_manifests_agree() -> None:
    assert naming_problems(manifests()) == []


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_pod_may_do_what_it_must_and_no_more(name: str) -> None:
    assert pod_problems(dict(named(manifests()))[name]) == []


def test_the_kustomization_takes_every_file_and_image() -> None:
    found = kustomization()
    files = {p.name for p in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert sorted(found["resources"]) == sorted(files)
    images = {i["name"]: i["newTag"] for i in found["images"]}
    assert set(images) == {image for _, _, image in WORKLOADS.values()}
    assert set(images.values()) == {tilewright.__version__}, "what was released together"


def test_images_are_those_that_the_dockerfile_builds() -> None:
    _, stages = read_dockerfile((DEPLOY / "docker" / "Dockerfile").read_text())
    assert {image for _, _, image in WORKLOADS.values()} == {f"tilewright-{t}" for t in targets(stages)}


def test_the_documentation_makes_every_secret() -> None:
    text = (ROOT / "docs" / "deploy.md").read_text()
    used = {
        p["secret"]["secretName"] for _, w in named(manifests()) for p in pod(w)["spec"]["volumes"] if "secret" in p
    }
    roles = re.findall(r"for role in ([\w ]+); do", text)[0].split()
    made = re.findall(r"create secret (?:generic|tls) (tilewright-\S+)", text)
    assert {name.replace("$role", role) for name in made for role in roles} == used


# --------------------------------------------------------------------------- the official chart instead


def chart() -> Doc:
    found: Doc = yaml.safe_load((FOLDER / "chart" / "values.yaml").read_text())
    return found


def test_the_chart_has_the_names_of_our_own_servers() -> None:
    """So that the same Secrets, certificates and addresses fit."""
    values = chart()
    servers = next(w for n, w in named(manifests()) if n == "tilewright-server")
    assert (values["fullnameOverride"], values["headlessService"]["name"]) == (
        servers["metadata"]["name"], servers["spec"]["serviceName"],
    )  # fmt: skip
    config = values["config"]
    assert (config["nats"]["port"], config["cluster"]["port"]) == (PORT, ROUTES_PORT)
    assert config["cluster"]["replicas"] == servers["spec"]["replicas"]
    assert config["nats"]["tls"]["merge"]["verify_and_map"] is True
    assert config["cluster"]["tls"]["merge"]["verify_cert_and_check_known_urls"] is True
    secrets = {
        config["nats"]["tls"]["secretName"],
        config["cluster"]["tls"]["secretName"],
        values["tlsCA"]["secretName"],
    }
    assert secrets == {"tilewright-server-certs"}


def test_the_chart_has_the_budgets_of_our_own_servers() -> None:
    merged = chart()["config"]["merge"]
    sizes = {"max_payload": budgets.PAYLOAD, "max_pending": budgets.PENDING}
    assert {k: merged[k] for k in sizes} == {k: f"<< {b.most >> 20}MB >>" for k, b in sizes.items()}
    numbers = {"max_connections": budgets.CONNECTIONS, "max_subscriptions": budgets.SUBSCRIPTIONS}
    assert {k: merged[k] for k in numbers} == {k: b.most for k, b in numbers.items()}


def test_the_charts_additions_fit_a_pod() -> None:
    """What is patched in, as the chart's template would have it: a pod that Kubernetes takes, with our commands."""
    values = chart()
    spec: Doc = {"containers": [], "volumes": [], **values["podTemplate"]["merge"]["spec"]}
    for patch in values["podTemplate"]["patch"]:
        assert patch["op"] == "add"
        *_, where, last = patch["path"].split("/")
        if last == "-":
            spec[where].append(patch["value"])
        else:
            spec[last] = patch["value"]
    doc = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}
    kubernetes_validate.validate(doc, VERSION, strict=True)
    mount = values["container"]["patch"][0]["value"]
    file = values["config"]["merge"]["zz$include"]
    assert mount["name"] in {v["name"] for v in spec["volumes"]}
    assert posixpath.normpath(f"/etc/nats-config/{file}") == f"{mount['mountPath']}/accounts.conf"
    for container in (*spec["initContainers"], *spec["containers"]):
        assert container["image"] == f"tilewright-server:{tilewright.__version__}"
        assert not refused(list(map(str, container["args"])), {})
        found = parse_command(list(map(str, container["args"])), {})
        folder = next(m["mountPath"] for m in container["volumeMounts"] if m["name"] == mount["name"])
        assert str(found.get("out") or found.get("users")) == f"{folder}/accounts.conf"
    for doc in values["extraResources"]:
        kubernetes_validate.validate(doc, VERSION, strict=True)
