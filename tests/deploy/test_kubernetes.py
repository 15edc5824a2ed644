"""Manifests with something wrong: each is refused with exactly these lines."""

from __future__ import annotations

import pytest

from .conftest import Broken

WRONG: list[tuple[str, list[str], list[str]]] = [
    (
        "kuberay/raycluster.yaml",
        ["workerGroupSpecs:", "workerGroupSpec:"],
        [
            (
                "spec.workerGroupSpec: unknown key; did you mean 'workerGroupSpecs'? use one of "
                "authOptions, autoscalerOptions, enableInTreeAutoscaling, gcsFaultToleranceOptions, "
                "headGroupSpec, headServiceAnnotations, managedBy, rayVersion, suspend, workerGroupSpecs"
            )
        ],
    ),
    (
        "kuberay/raycluster.yaml",
        ["    replicas: 2", "    replica: 2"],
        [
            (
                "spec.workerGroupSpecs.0.replica: unknown key; did you mean 'replicas'? use one of "
                "groupName, idleTimeoutSeconds, labels, maxReplicas, minReplicas, numOfHosts, "
                "rayStartParams, replicas, resources, scaleStrategy, suspend, template"
            )
        ],
    ),
    (
        "kuberay/raycluster.yaml",
        ["            resources:", "            resource:"],
        [
            (
                "spec.headGroupSpec.template.spec.containers.0.resource: unknown key; did you mean "
                "'resources'?"
            ),
            (
                "spec.workerGroupSpecs.0.template.spec.containers.0.resource: unknown key; did you mean "
                "'resources'?"
            ),
            (
                "spec.workerGroupSpecs.1.template.spec.containers.0.resource: unknown key; did you mean "
                "'resources'?"
            ),
        ],
    ),
    (
        "kuberay/raycluster.yaml",
        ['  rayVersion: "2.60.0"', '  rayVersion: "2.59.0"'],
        ["spec.rayVersion: value '2.59.0'; use '2.60.0', as here"],
    ),
    (
        "kuberay/raycluster.yaml",
        ["rlsched:0.1.0-ray2.60.0\n", "rlsched:0.1.0-ray2.59.0\n"],
        [
            (
                "spec.headGroupSpec.template.spec.containers.0.image: "
                "'registry.example.com/rlsched:0.1.0-ray2.59.0' has ray 2.59.0; use 2.60.0, as here"
            ),
            (
                "spec.workerGroupSpecs.0.template.spec.containers.0.image: "
                "'registry.example.com/rlsched:0.1.0-ray2.59.0' has ray 2.59.0; use 2.60.0, as here"
            ),
        ],
    ),
    (
        "kuberay/raycluster.yaml",
        ["rlsched:0.1.0-ray2.60.0\n", "rlsched\n"],
        [
            (
                "spec.headGroupSpec.template.spec.containers.0.image: 'registry.example.com/rlsched' is "
                "another image every day; name a version"
            ),
            (
                "spec.workerGroupSpecs.0.template.spec.containers.0.image: "
                "'registry.example.com/rlsched' is another image every day; name a version"
            ),
        ],
    ),
    (
        "kuberay/raycluster.yaml",
        ['num-cpus: "0"', "num-cpus: 0"],
        ["spec.headGroupSpec.rayStartParams.num-cpus: value 0; use text (quote it)"],
    ),
    (
        "kuberay/raycluster.yaml",
        ["dashboard-host: 0.0.0.0", "dashbord-host: 0.0.0.0"],
        ["spec.headGroupSpec.rayStartParams.dashbord-host: unknown key; did you mean 'dashboard-host'?"],
    ),
    (
        "kuberay/raycluster.yaml",
        ["    maxReplicas: 10", "    maxReplicas: 1"],
        ["spec.workerGroupSpecs.0.minReplicas: value 2 is above maxReplicas (1); lower it"],
    ),
    (
        "kuberay/raycluster.yaml",
        ["    replicas: 2\n", "    replicas: 1\n"],
        ["spec.workerGroupSpecs.0.replicas: value 1 is below minReplicas (2); raise it"],
    ),
    (
        "kuberay/raycluster.yaml",
        ["  enableInTreeAutoscaling: true\n", ""],
        [
            (
                "spec.autoscalerOptions: counts only with enableInTreeAutoscaling; set that to true, or "
                "leave this out"
            )
        ],
    ),
    (
        "kuberay/raycluster.yaml",
        ["{name: shared, mountPath: /shared}", "{name: share, mountPath: /shared}"],
        [
            (
                "spec.headGroupSpec.template.spec.containers.0.volumeMounts.0.name: no volume 'share'; "
                "did you mean 'shared'? use one of shared"
            ),
            (
                "spec.workerGroupSpecs.0.template.spec.containers.0.volumeMounts.0.name: no volume "
                "'share'; did you mean 'shared'? use one of shared"
            ),
            (
                "spec.workerGroupSpecs.1.template.spec.containers.0.volumeMounts.0.name: no volume "
                "'share'; did you mean 'shared'? use one of shared"
            ),
        ],
    ),
    (
        "kuberay/raycluster.yaml",
        ["groupName: gpu ", "groupName: cpu "],
        ["spec.workerGroupSpecs.1.groupName: 'cpu' stands twice; name each its own"],
    ),
    (
        "kuberay/raycluster.yaml",
        ["limits: {cpu: 8,", "limits: {cpu: 500m,"],
        [
            (
                "spec.workerGroupSpecs.0.template.spec.containers.0.resources.requests.cpu: value 8 is "
                "above its limit ('500m'); lower it"
            )
        ],
    ),
    (
        "kuberay/raycluster.yaml",
        ["requests: {cpu: 8, memory: 16Gi}", "requests: {cpu: 8, memory: 16GiB}"],
        [
            (
                "spec.workerGroupSpecs.0.template.spec.containers.0.resources.requests.memory: value "
                "'16GiB'; write it as 16Gi or 500m or 4"
            )
        ],
    ),
    (
        "kuberay/raycluster.yaml",
        ["requests: {cpu: 8, memory: 16Gi}", "requests: {cpus: 8, memory: 16Gi}"],
        [
            (
                "spec.workerGroupSpecs.0.template.spec.containers.0.resources.requests.cpus: unknown "
                "resource; did you mean 'cpu'? use one of cpu, ephemeral-storage, memory"
            )
        ],
    ),
    (
        "kuberay/raycluster.yaml",
        [
            "requests: {cpu: 4, memory: 16Gi, nvidia.com/gpu: 1}",
            "requests: {cpu: 4, memory: 16Gi, nvidia.com/gpu: 2}",
        ],
        [
            (
                "spec.workerGroupSpecs.1.template.spec.containers.0.resources.requests.nvidia.com/gpu: "
                "value 2 is above its limit (1); lower it"
            ),
            (
                "spec.workerGroupSpecs.1.template.spec.containers.0.resources.limits.nvidia.com/gpu: "
                "differs from requests (2); give it the same"
            ),
        ],
    ),
    (
        "kuberay/raycluster.yaml",
        ["apiVersion: ray.io/v1", "apiVersion: ray.io/v1alpha1"],
        ["apiVersion: value 'ray.io/v1alpha1'; use ray.io/v1"],
    ),
    (
        "kuberay/raycluster.yaml",
        ["kind: RayCluster", "kind: RayClusters"],
        [
            "kind: value 'RayClusters'; did you mean 'RayCluster'? use one of RayCluster, RayCronJob, "
            "RayJob, RayService"
        ],
    ),
    (
        "kuberay/raycluster.yaml",
        ["  name: rlsched\n", "  name: RlSched\n"],
        ["metadata.name: value 'RlSched'; use lower-case letters, digits, '-' and '.'"],
    ),
    (
        "kuberay/raycluster.yaml",
        ["mode: token", "mode: tokens"],
        ["spec.authOptions.mode: value 'tokens'; did you mean 'token'? use one of disabled, token"],
    ),
    (
        "kuberay/raycluster.yaml",
        ["  headGroupSpec:", "  headGroupSpecs:"],
        [
            (
                "spec.headGroupSpecs: unknown key; did you mean 'headGroupSpec'? use one of authOptions, "
                "autoscalerOptions, enableInTreeAutoscaling, gcsFaultToleranceOptions, headGroupSpec, "
                "headServiceAnnotations, managedBy, rayVersion, suspend, workerGroupSpecs"
            )
        ],
    ),
    (
        "kuberay/raycluster.yaml",
        [
            "        containers:\n          - name: ray-head",
            (
                '        nodeSelector: {cloud.google.com/gke-spot: "true"}\n        containers:\n          '
                "- name: ray-head"
            ),
        ],
        [
            (
                "spec.headGroupSpec.template.spec.nodeSelector.cloud.google.com/gke-spot: the head is on "
                "a spot node, whose loss ends the cluster; leave it out"
            )
        ],
    ),
    (
        "kuberay/rayjob-train.yaml",
        ["rlsched train --scenario", "rlsched tran --scenario"],
        [
            (
                "spec.entrypoint: 'rlsched tran' would refuse this: No such command 'tran'. Did you mean "
                "'train', 'trace'?; see rlsched --help"
            )
        ],
    ),
    (
        "kuberay/rayjob-train.yaml",
        ["--steps 20000000", "--step 20000000"],
        [
            (
                "spec.entrypoint: 'rlsched train' would refuse this: No such option: --step (Possible "
                "options: --seed, --set, --steps); see rlsched train --help"
            )
        ],
    ),
    (
        "kuberay/rayjob-train.yaml",
        ["--out /shared/runs/green --address auto; fi'", "--out /shared/runs/green; fi'"],
        ["spec.entrypoint: train without --address auto keeps to the head's pod; add it"],
    ),
    (
        "kuberay/rayjob-train.yaml",
        ["--out /shared/runs/green --address auto; fi'", "--out runs/green --address auto; fi'"],
        ["spec.entrypoint: --out 'runs/green' is lost with the head's pod; put it in one of /shared"],
    ),
    ("kuberay/rayjob-train.yaml", ["fi'\n", "fi\n"], ["spec.entrypoint: no closing quotation; close it"]),
    (
        "kuberay/rayjob-train.yaml",
        ["rlsched train --resume --trust-checkpoint --out", "rlsched train --scenario green-10 --out"],
        [
            (
                "spec.backoffLimit: value 3, but the entrypoint never goes on with --resume; begin where "
                "there is no run, else --resume"
            )
        ],
    ),
    (
        "kuberay/rayjob-train.yaml",
        ["  shutdownAfterJobFinishes: true\n", ""],
        [
            (
                "spec.ttlSecondsAfterFinished: counts only with shutdownAfterJobFinishes; set that to "
                "true, or leave this out"
            )
        ],
    ),
    (
        "kuberay/rayjob-train.yaml",
        ["  entrypoint: >-", "  entryPoint: >-"],
        ["spec.entryPoint: unknown key; did you mean 'entrypoint'?"],
    ),
    (
        "kuberay/rayjob-train.yaml",
        ["  backoffLimit: 3 ", "  backoffLimit: three "],
        ["spec.backoffLimit: value 'three'; use a whole number"],
    ),
    (
        "kuberay/rayjob-tune.yaml",
        ["rlsched tune --resume", "rlsched tune --resum"],
        [
            (
                "spec.entrypoint: 'rlsched tune' would refuse this: No such option: --resum (Possible "
                "options: --address, --resume); see rlsched tune --help"
            ),
            (
                "spec.backoffLimit: value 3, but the entrypoint never goes on with --resume; begin where "
                "there is no run, else --resume"
            ),
        ],
    ),
    (
        "kuberay/rayservice.yaml",
        ["rlsched.serve.app:build", "rlsched.serve.ap:build"],
        [
            (
                "spec.serveConfigV2.applications.0.import_path: 'rlsched.serve.ap:build': no module "
                "rlsched.serve.ap; use rlsched.serve.app:build"
            )
        ],
    ),
    (
        "kuberay/rayservice.yaml",
        ["route_prefix: /", "route_prefix: v1"],
        ["spec.serveConfigV2.applications.0.route_prefix: value 'v1'; begin it with /"],
    ),
    (
        "kuberay/rayservice.yaml",
        ["route_prefix: /", "route_prefx: /"],
        [
            (
                "spec.serveConfigV2.applications.0.route_prefx: unknown key; did you mean "
                "'route_prefix'? use one of args, autoscaling_policy, deployments, "
                "external_scaler_enabled, host, import_path, logging_config, name, port, route_prefix, "
                "runtime_env"
            )
        ],
    ),
    (
        "kuberay/rayservice.yaml",
        ["    applications:", "    aplications:"],
        [
            (
                "spec.serveConfigV2.aplications: unknown key; did you mean 'applications'? use one of "
                "applications, controller_options, grpc_options, http_options, logging_config, "
                "proxy_location, target_capacity, tracing_config"
            )
        ],
    ),
    (
        "kuberay/rayservice.yaml",
        ["rayClusterConfig:", "rayClusterSpec:"],
        [
            (
                "spec.rayClusterSpec: unknown key; did you mean 'rayClusterConfig'? use one of "
                "excludeHeadPodFromServeSvc, rayClusterConfig, rayClusterDeletionDelaySeconds, "
                "serveConfigV2, serveService, upgradeStrategy"
            )
        ],
    ),
    (
        "kuberay/rayservice.yaml",
        ["          policies: {green", "          policies {green"],
        [
            (
                "spec.serveConfigV2.applications.0.args: policies {green: unknown key; did you mean "
                "'policies'? use one of fallback, gate, hosts, limits, log, mode, policies, reload_s, "
                "scaling, token_file"
            )
        ],
    ),
    (
        "kuberay/storage.yaml",
        ["accessModes: [ReadWriteMany]", "accessModes: [ReadWriteMulti]"],
        [
            (
                "spec.accessModes.0: value 'ReadWriteMulti'; did you mean 'ReadWriteMany'? use one of "
                "ReadOnlyMany, ReadWriteMany, ReadWriteOnce, ReadWriteOncePod"
            )
        ],
    ),
    (
        "kuberay/storage.yaml",
        ["requests: {storage: 100Gi}", "requests: {storage: lots}"],
        ["spec.resources.requests.storage: value 'lots'; write it as 16Gi or 500m or 4"],
    ),
    ("kuberay/storage.yaml", ["apiVersion: v1", "apiVersion: v2"], ["apiVersion: value 'v2'; use v1"]),
    (
        "kuberay/rayservice.yaml",
        ["scaling: {replicas: 2, most: 8}", "scaling: {replica: 2, most: 8}"],
        [
            (
                "spec.serveConfigV2.applications.0.args: scaling.replica: unknown key; did you mean "
                "'replicas'? use one of cpus, most, ongoing, replicas"
            )
        ],
    ),
    (
        "kuberay/rayjob-train.yaml",
        ["--out /shared/runs/green --address auto; fi'", "--address auto; fi'"],
        ["spec.entrypoint: a run without --out is lost with the head's pod; put it in one of /shared"],
    ),
    (
        "kuberay/raycluster.yaml",
        ["mountPath: /shared}\n        volumes", "mountPath: /shared}\n        volume"],
        ["spec.headGroupSpec.template.spec.volume: unknown key; did you mean 'volumes'?"],
    ),
    (
        "kuberay/rayservice.yaml",
        ["mountPath: /shared", "mountPath: shared"],
        [
            (
                "spec.rayClusterConfig.headGroupSpec.template.spec.containers.0.volumeMounts.0."
                "mountPath: value 'shared'; begin it with /"
            ),
            (
                "spec.rayClusterConfig.workerGroupSpecs.0.template.spec.containers.0.volumeMounts.0."
                "mountPath: value 'shared'; begin it with /"
            ),
        ],
    ),
    (
        "kuberay/rayjob-tune.yaml",
        ["effect: NoSchedule", "effect: NoShedule"],
        [
            (
                "spec.rayClusterSpec.workerGroupSpecs.0.template.spec.tolerations.0.effect: "
                "value 'NoShedule'; "
                "did you mean 'NoSchedule'? use one of NoExecute, NoSchedule, PreferNoSchedule"
            )
        ],
    ),
    (
        "kuberay/rayjob-tune.yaml",
        ["requests: {cpu: 8, memory: 16Gi}", "requests: {cpu: -8, memory: 16Gi}"],
        [
            (
                "spec.rayClusterSpec.workerGroupSpecs.0.template.spec.containers.0.resources.requests.cpu: "
                "value -8; use at least 0"
            )
        ],
    ),
]


@pytest.mark.parametrize(("name", "change", "lines"), WRONG, ids=range(len(WRONG)))
def test_it_is_refused(name: str, change: list[str], lines: list[str], broken: Broken) -> None:
    assert broken(name, *change) == lines
