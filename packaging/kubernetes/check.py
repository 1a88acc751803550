#!/usr/bin/env python3
"""Whether skerry-node.yaml says what it means: that it is YAML, that every field is one of apps/v1's
StatefulSet (those used here, by the API reference of Kubernetes 1.30), and that what must agree does.
It needs no cluster and says nothing about one. usage: check.py [FILE]"""
import os
import sys

import yaml

NAMES = {"*": str}  # labels: any names
EXACT = {  # field: what is inside; a list of one is a list of such
    "apiVersion": str,
    "kind": str,
    "metadata": {"name": str, "labels": NAMES},
    "spec": {
        "serviceName": str,
        "replicas": int,
        "podManagementPolicy": str,
        "selector": {"matchLabels": NAMES},
        "template": {
            "metadata": {"labels": NAMES},
            "spec": {
                "terminationGracePeriodSeconds": int,
                "automountServiceAccountToken": bool,
                "securityContext": {"runAsNonRoot": bool, "runAsUser": int, "runAsGroup": int,
                                    "fsGroup": int, "seccompProfile": {"type": str}},
                "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": int, "podAffinityTerm": {
                        "topologyKey": str, "labelSelector": {"matchLabels": NAMES}}}]}},
                "containers": [{
                    "name": str,
                    "image": str,
                    "command": [str],
                    "args": [str],
                    "env": [{"name": str,
                             "valueFrom": {"secretKeyRef": {"name": str, "key": str}}}],
                    "ports": [{"name": str, "containerPort": int}],
                    "resources": {"requests": {"*": (str, int)}, "limits": {"*": (str, int)}},
                    "securityContext": {"allowPrivilegeEscalation": bool,
                                        "readOnlyRootFilesystem": bool,
                                        "capabilities": {"drop": [str]}},
                    "volumeMounts": [{"name": str, "mountPath": str}],
                }],
                "volumes": [{"name": str, "emptyDir": {}}],
            },
        },
        "volumeClaimTemplates": [{"metadata": {"name": str}, "spec": {
            "accessModes": [str], "resources": {"requests": {"storage": str}}}}],
    },
}


def compare(value, wanted, where):
    """What is wrong with a value, as sentences."""
    if isinstance(wanted, list):
        if not isinstance(value, list):
            return [f"{where}: is no list"]
        return [e for i, v in enumerate(value) for e in compare(v, wanted[0], f"{where}[{i}]")]
    if not isinstance(wanted, dict):
        kinds = wanted if isinstance(wanted, tuple) else (wanted,)
        right = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
        return [] if right else [f"{where}: is {value!r}"]
    if not isinstance(value, dict):
        return [f"{where}: has no fields"]
    wrong = []
    for name, inside in value.items():
        if name not in wanted and "*" not in wanted:
            wrong.append(f"{where}.{name}: there is no such field")
        else:
            wrong += compare(inside, wanted.get(name, wanted.get("*")), f"{where}.{name}")
    return wrong


def agree(manifest):
    """What does not fit together."""
    spec = manifest["spec"]
    pod, wrong = spec["template"]["spec"], []
    labels, chosen = spec["template"]["metadata"]["labels"], spec["selector"]["matchLabels"]
    if not chosen.items() <= labels.items():
        wrong.append("the selector does not choose the template's pods")
    volumes = {v["name"] for v in pod["volumes"]}
    volumes |= {c["metadata"]["name"] for c in spec["volumeClaimTemplates"]}
    for container in pod["containers"]:
        mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
        if not mounts.keys() <= volumes:
            wrong.append(f"mounts without a volume: {sorted(mounts.keys() - volumes)}")
        if container["args"][container["args"].index("--home") + 1] != mounts.get("home"):
            wrong.append("--home is not on the volume that keeps the node's identity")
        if "SKERRY_TICKET" not in {e["name"] for e in container["env"]}:
            wrong.append("no ticket")
    return wrong


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    file = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "skerry-node.yaml")
    with open(file, encoding="utf-8") as text:
        manifest = yaml.safe_load(text)
    wrong = compare(manifest, EXACT, "manifest")
    if (manifest.get("apiVersion"), manifest.get("kind")) != ("apps/v1", "StatefulSet"):
        wrong.append("it is no StatefulSet of apps/v1")
    wrong = wrong or agree(manifest)
    for line in wrong:
        print(line, file=sys.stderr)
    if not wrong:
        print(f"{os.path.basename(file)}: YAML, and every field is one of apps/v1")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
