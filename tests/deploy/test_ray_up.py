"""Files of `ray up` with something wrong: each is refused with exactly these lines."""

from __future__ import annotations

import pytest

from .conftest import Broken

WRONG: list[tuple[str, list[str], list[str]]] = [
    (
        "aws.yaml",
        ["max_workers: 20", "max_worker: 20"],
        ["max_worker: unknown key; did you mean 'max_workers'?"],
    ),
    (
        "aws.yaml",
        ["idle_timeout_minutes: 10", "idle_timeout_minutes: ten"],
        ["idle_timeout_minutes: value 'ten'; use a number"],
    ),
    (
        "aws.yaml",
        ["head_node_type: head", "head_node_type: haed"],
        ["head_node_type: value 'haed'; use one of head, cpu, gpu"],
    ),
    (
        "aws.yaml",
        ["      InstanceType: c7i.4xlarge", "      InstanceTyp: c7i.4xlarge"],
        ["available_node_types.cpu.node_config.InstanceTyp: unknown key; did you mean 'InstanceType'?"],
    ),
    (
        "aws.yaml",
        [
            "SpotOptions: {InstanceInterruptionBehavior: terminate}",
            "SpotOptions: {InstanceInteruptionBehavior: terminate}",
        ],
        [
            (
                "available_node_types.cpu.node_config.InstanceMarketOptions."
                "SpotOptions.InstanceInteruptionBehavior: "
                "unknown key; did you mean 'InstanceInterruptionBehavior'? use one of "
                "BlockDurationMinutes, InstanceInterruptionBehavior, MaxPrice, SpotInstanceType, "
                "ValidUntil"
            ),
            (
                "available_node_types.gpu.node_config.InstanceMarketOptions."
                "SpotOptions.InstanceInteruptionBehavior: "
                "unknown key; did you mean 'InstanceInterruptionBehavior'? use one of "
                "BlockDurationMinutes, InstanceInterruptionBehavior, MaxPrice, SpotInstanceType, "
                "ValidUntil"
            ),
        ],
    ),
    (
        "aws.yaml",
        ["        MarketType: spot", "        MarketType: sport"],
        [
            (
                "available_node_types.cpu.node_config.InstanceMarketOptions.MarketType: value 'sport'; "
                "use one of capacity-block, spot"
            ),
            (
                "available_node_types.gpu.node_config.InstanceMarketOptions.MarketType: value 'sport'; "
                "use one of capacity-block, spot"
            ),
        ],
    ),
    (
        "aws.yaml",
        ["{VolumeSize: 80, VolumeType: gp3}", "{VolumSize: 80, VolumeType: gp3}"],
        [
            (
                "available_node_types.cpu.node_config.BlockDeviceMappings.0.Ebs.VolumSize: unknown key; "
                "did you mean 'VolumeSize'? use one of DeleteOnTermination, Encrypted, Iops, KmsKeyId, "
                "OutpostArn, SnapshotId, Throughput, VolumeInitializationRate, VolumeSize, VolumeType"
            )
        ],
    ),
    (
        "aws.yaml",
        [
            "      InstanceType: m7i.2xlarge",
            "      InstanceType: m7i.2xlarge\n      InstanceMarketOptions: {MarketType: spot}",
        ],
        [
            (
                "available_node_types.head.node_config.InstanceMarketOptions: the head is a spot "
                "instance, whose loss ends the cluster; leave it out"
            )
        ],
    ),
    (
        "aws.yaml",
        ["    min_workers: 0  # for sweeps", "    min_workers: 18  # for sweeps"],
        ["available_node_types.cpu.min_workers: value 18 is above max_workers (16); lower it"],
    ),
    (
        "aws.yaml",
        ["    min_workers: 0", "    min_workers: 3", "max_workers: 20", "max_workers: 5"],
        ["max_workers: value 5 is below the sum of all min_workers (6); use at least 6"],
    ),
    (
        "aws.yaml",
        ['{"CPU": 8, "GPU": 1}', '{"CPU": 8, "gpus": 1}'],
        ["available_node_types.gpu.resources.gpus: Ray knows no such resource; did you mean 'GPU'?"],
    ),
    (
        "aws.yaml",
        ["ray[default]==2.60.0", "ray[default]==2.59.0"],
        ["setup_commands.4: installs ray 2.59.0; use 2.60.0, as here"],
    ),
    (
        "aws.yaml",
        ["--address=$RAY_HEAD_IP:6379", "--address=$RAY_HEAD_IP:6380"],
        [
            (
                "worker_start_ray_commands: joins at port 6380, but the head listens at 6379; use one "
                "port for both"
            )
        ],
    ),
    (
        "aws.yaml",
        [" --autoscaling-config=~/ray_bootstrap_config.yaml", ""],
        [
            (
                "head_start_ray_commands: the head will start no workers; add "
                "--autoscaling-config=~/ray_bootstrap_config.yaml"
            )
        ],
    ),
    (
        "aws.yaml",
        ["ray start --head --port", "ray start --head --prot"],
        [
            (
                "head_start_ray_commands.1: 'ray start' would refuse this: No such option '--prot'. Did "
                "you mean '--port'?; see ray start --help"
            )
        ],
    ),
    (
        "aws.yaml",
        ["  type: aws", "  type: asw"],
        ["provider.type: value 'asw'; did you mean 'aws'? use one of aws, gcp, local"],
    ),
    (
        "aws.yaml",
        ["  region: eu-west-1 ", "  regoin: eu-west-1 "],
        [
            (
                "provider.regoin: unknown key; did you mean 'region'? use one of availability_zone, "
                "cache_stopped_nodes, cloudwatch, region, security_group, type, use_internal_ips"
            )
        ],
    ),
    (
        "aws.yaml",
        ["  ~/rlsched/datasets: datasets", "  ~/rlsched/datasets: dataset"],
        [
            (
                "file_mounts.~/rlsched/datasets: 'dataset': no such file or folder here; name what is to "
                "be copied"
            )
        ],
    ),
    (
        "aws.yaml",
        ["  ~/rlsched/datasets: datasets", "  rlsched/datasets: datasets"],
        ["file_mounts.rlsched/datasets: is relative; begin it with / or ~"],
    ),
    (
        "aws.yaml",
        ["RAY_AUTH_MODE=token ~/venv/bin/ray start --head", "~/venv/bin/ray start --head"],
        [
            (
                "head_start_ray_commands: a head with a token in its ~/.ray asks all others for it, who "
                "do not know; set RAY_AUTH_MODE=token, and give all nodes the token"
            )
        ],
    ),
    (
        "aws.yaml",
        ["--scenario green-10 --policy fcfs", "--scenaro green-10 --policy fcfs"],
        [
            (
                "setup_commands.5: 'rlsched simulate' would refuse this: No such option: --scenaro "
                "(Possible options: --scenario); see rlsched simulate --help"
            )
        ],
    ),
    (
        "aws.yaml",
        ["cluster_name: rlsched\n", "cluster_name: rlsched\ncluster_name: other\n"],
        ["line 5: key 'cluster_name' stands twice; mend the YAML"],
    ),
    (
        "gcp.yaml",
        ["provisioningModel: SPOT", "provisioningModel: SPOTS"],
        [
            (
                "available_node_types.cpu.node_config.scheduling.provisioningModel: value 'SPOTS'; use "
                "one of SPOT, STANDARD"
            ),
            (
                "available_node_types.gpu.node_config.scheduling.provisioningModel: value 'SPOTS'; use "
                "one of SPOT, STANDARD"
            ),
        ],
    ),
    (
        "gcp.yaml",
        ["onHostMaintenance: TERMINATE", "onHostMaintenance: MIGRATE"],
        [
            (
                "available_node_types.cpu.node_config.scheduling.onHostMaintenance: a spot instance "
                "cannot be moved; write TERMINATE"
            ),
            (
                "available_node_types.gpu.node_config.scheduling.onHostMaintenance: a spot instance "
                "cannot be moved; write TERMINATE"
            ),
        ],
    ),
    (
        "gcp.yaml",
        ["sourceImage:", "soureImage:"],
        [
            (
                "available_node_types.head.node_config.disks.0.initializeParams.soureImage: unknown key; "
                "did you mean 'sourceImage'? use one of description, diskName, diskSizeGb, diskType, "
                "labels, provisionedIops, provisionedThroughput, resourceManagerTags, sourceImage, "
                "sourceSnapshot"
            ),
            (
                "available_node_types.cpu.node_config.disks.0.initializeParams.soureImage: unknown key; "
                "did you mean 'sourceImage'? use one of description, diskName, diskSizeGb, diskType, "
                "labels, provisionedIops, provisionedThroughput, resourceManagerTags, sourceImage, "
                "sourceSnapshot"
            ),
            (
                "available_node_types.gpu.node_config.disks.0.initializeParams.soureImage: unknown key; "
                "did you mean 'sourceImage'? use one of description, diskName, diskSizeGb, diskType, "
                "labels, provisionedIops, provisionedThroughput, resourceManagerTags, sourceImage, "
                "sourceSnapshot"
            ),
        ],
    ),
    (
        "gcp.yaml",
        ["      machineType: n2-standard-16", "      machinetype: n2-standard-16"],
        ["available_node_types.cpu.node_config.machinetype: unknown key; did you mean 'machineType'?"],
    ),
    (
        "on-prem.yaml",
        [
            "  worker_ips: [192.0.2.11, 192.0.2.12, 192.0.2.13]",
            "  worker_ips: [192.0.2.11, 192.0.2.11, 192.0.2.13]",
        ],
        ["provider.worker_ips.1: '192.0.2.11' stands twice; name each machine once"],
    ),
    (
        "on-prem.yaml",
        ["min_workers: 3", "min_workers: 4"],
        ["min_workers: value 4, but there are 3 worker_ips; use at most 3"],
    ),
    (
        "on-prem.yaml",
        ["  head_ip: 192.0.2.10 ", "  head_id: 192.0.2.10 "],
        [
            (
                "provider.head_id: unknown key; did you mean 'head_ip'? use one of coordinator_address, "
                "head_ip, type, worker_ips"
            )
        ],
    ),
    (
        "aws.yaml",
        ["    min_workers: 0  # for sweeps", "    min_workers: -1  # for sweeps"],
        ["available_node_types.cpu.min_workers: value -1; use at least 0"],
    ),
    (
        "gcp.yaml",
        ["machineType: n2-standard-8", "machineType: [n2-standard-8]"],
        ["available_node_types.head.node_config.machineType: is a list; use text"],
    ),
    (
        "on-prem.yaml",
        ["[192.0.2.11, 192.0.2.12, 192.0.2.13]", "[192.0.2.11, 12, 192.0.2.13]"],
        ["provider.worker_ips.1: value 12; use text (quote it)"],
    ),
]


@pytest.mark.parametrize(("name", "change", "lines"), WRONG, ids=range(len(WRONG)))
def test_it_is_refused(name: str, change: list[str], lines: list[str], broken: Broken) -> None:
    assert broken(name, *change) == lines
