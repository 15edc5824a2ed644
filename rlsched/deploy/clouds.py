"""What may stand in `node_config` of `ray up` files, which Ray hands to a cloud as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlsched.deploy.documents import at
from rlsched.deploy.findings import Place, Problems, missing
from rlsched.deploy.schema import said

Fields = Mapping[str, "Fields | None"]
"""Known keys, with what may stand in their mapping or list of mappings; None: not looked into."""

_EBS: Fields = dict.fromkeys(
    (
        *("DeleteOnTermination", "Encrypted", "Iops", "KmsKeyId", "OutpostArn", "SnapshotId", "Throughput"),
        *("VolumeInitializationRate", "VolumeSize", "VolumeType"),
    )
)
AWS: Fields = dict.fromkeys(
    (
        *("AdditionalInfo", "ClientToken", "CreditSpecification", "DisableApiStop", "DisableApiTermination"),
        *("EbsOptimized", "ElasticGpuSpecification", "EnablePrimaryIpv6", "ImageId", "InstanceType"),
        *("Ipv6AddressCount", "Ipv6Addresses", "KernelId", "KeyName", "LicenseSpecifications"),
        *(
            "MaintenanceOptions",
            "NetworkInterfaces",
            "PrivateDnsNameOptions",
            "PrivateIpAddress",
            "RamdiskId",
        ),
        *("SecurityGroupIds", "SecurityGroups", "SubnetId", "SubnetIds", "UserData"),
        "InstanceInitiatedShutdownBehavior",
    )
) | {
    "BlockDeviceMappings": {"DeviceName": None, "Ebs": _EBS, "NoDevice": None, "VirtualName": None},
    "CapacityReservationSpecification": dict.fromkeys(
        ("CapacityReservationPreference", "CapacityReservationTarget")
    ),
    "CpuOptions": dict.fromkeys(("AmdSevSnp", "CoreCount", "ThreadsPerCore")),
    "EnclaveOptions": {"Enabled": None},
    "HibernationOptions": {"Configured": None},
    "IamInstanceProfile": {"Arn": None, "Name": None},
    "InstanceMarketOptions": {
        "MarketType": None,
        "SpotOptions": dict.fromkeys(
            (
                *("BlockDurationMinutes", "InstanceInterruptionBehavior", "MaxPrice", "SpotInstanceType"),
                "ValidUntil",
            )
        ),
    },
    "LaunchTemplate": dict.fromkeys(("LaunchTemplateId", "LaunchTemplateName", "Version")),
    "MetadataOptions": dict.fromkeys(
        (
            *("HttpEndpoint", "HttpProtocolIpv6", "HttpPutResponseHopLimit", "HttpTokens"),
            "InstanceMetadataTags",
        )
    ),
    "Monitoring": {"Enabled": None},
    "Placement": dict.fromkeys(
        (
            *("Affinity", "AvailabilityZone", "GroupId", "GroupName", "HostId", "HostResourceGroupArn"),
            *("PartitionNumber", "SpreadDomain", "Tenancy"),
        )
    ),
    "TagSpecifications": {"ResourceType": None, "Tags": {"Key": None, "Value": None}},
}
"""Of EC2's RunInstances; `SubnetIds` is Ray's."""

GCP: Fields = dict.fromkeys(
    (
        *("advancedMachineFeatures", "canIpForward", "confidentialInstanceConfig", "deletionProtection"),
        *("description", "displayDevice", "hostname", "keyRevocationActionType", "labels", "machineType"),
        *("minCpuPlatform", "networkPerformanceConfig", "params", "privateIpv6GoogleAccess"),
        *("reservationAffinity", "resourcePolicies", "shieldedInstanceConfig", "sourceInstanceTemplate"),
        *("sourceMachineImage", "startRestricted"),
    )
) | {
    "disks": dict.fromkeys(
        (
            *("autoDelete", "boot", "deviceName", "diskEncryptionKey", "diskSizeGb", "guestOsFeatures"),
            *("index", "interface", "kind", "licenses", "mode", "source", "type"),
        )
    )
    | {
        "initializeParams": dict.fromkeys(
            (
                *("description", "diskName", "diskSizeGb", "diskType", "labels", "provisionedIops"),
                *("provisionedThroughput", "resourceManagerTags", "sourceImage", "sourceSnapshot"),
            )
        )
    },
    "guestAccelerators": dict.fromkeys(("acceleratorCount", "acceleratorType")),
    "metadata": {"items": {"key": None, "value": None}},
    "networkInterfaces": dict.fromkeys(
        (
            *("accessConfigs", "aliasIpRanges", "internalIpv6PrefixLength", "ipv6AccessConfigs", "kind"),
            *("name", "network", "networkIP", "nicType", "queueCount", "stackType", "subnetwork"),
        )
    ),
    "scheduling": dict.fromkeys(
        (
            *("automaticRestart", "instanceTerminationAction", "localSsdRecoveryTimeout", "maxRunDuration"),
            *("minNodeCpus", "nodeAffinities", "onHostMaintenance", "onInstanceStopAction", "preemptible"),
            *("provisioningModel", "terminationTime"),
        )
    ),
    "serviceAccounts": {"email": None, "scopes": None},
    "tags": {"fingerprint": None, "items": None},
}
"""Of Compute Engine's instances.insert."""

TEXT = {
    *("ImageId", "InstanceType", "KeyName", "SubnetId", "UserData", "VolumeType", "machineType"),
    *("sourceImage", "sourceInstanceTemplate"),
}
"""Of these, what is text."""

REQUIRED = {"aws": ("InstanceType",), "gcp": ("machineType", "disks")}
KNOWN = {"aws": AWS, "gcp": GCP}


def check_node(place: Place, node: Mapping[str, Any], cloud: str, *, head: bool) -> Problems:
    """What a cloud would refuse of a machine, or start without what was misspelt.

    Args:
        place: of `node_config`.
        node: what stands there.
        cloud: `aws` or `gcp`.
        head: whether it is the head, without which there is no cluster.
    """
    yield from _check_keys(place, node, KNOWN[cloud])
    # A template says them, too.
    required = () if {"LaunchTemplate", "sourceInstanceTemplate"} & set(node) else REQUIRED[cloud]
    for key in missing(required, node, KNOWN[cloud]):
        yield (place / key).wrong("is missing", "give it a value")
    yield from (_check_aws if cloud == "aws" else _check_gcp)(place, node, head)


def _check_keys(place: Place, values: Any, known: Fields) -> Problems:
    """Unknown keys, however deep."""
    if isinstance(values, list):
        for k, value in enumerate(values):
            yield from _check_keys(place / k, value, known)
    elif isinstance(values, dict):
        for key, value in values.items():
            if key not in known:
                yield (place / key).unknown("key", key, known)
            elif key in TEXT and not isinstance(value, str):
                yield (place / key).wrong(said(value), "use text")
            elif (inner := known[key]) is not None:
                yield from _check_keys(place / key, value, inner)


def _check_aws(place: Place, node: Mapping[str, Any], head: bool) -> Problems:
    market = at(node, "InstanceMarketOptions", "MarketType")
    here = place / "InstanceMarketOptions"
    if "InstanceMarketOptions" in node and market not in ("spot", "capacity-block"):
        yield (here / "MarketType").wrong(f"value {market!r}", "use one of capacity-block, spot")
    if head and market == "spot":
        yield here.wrong("the head is a spot instance, whose loss ends the cluster", "leave it out")
    behavior = at(node, "InstanceMarketOptions", "SpotOptions", "InstanceInterruptionBehavior")
    if behavior not in (None, "terminate"):
        yield (here / "SpotOptions" / "InstanceInterruptionBehavior").wrong(
            f"value {behavior!r}: Ray takes an instance that is only stopped for lost", "use terminate"
        )


def _check_gcp(place: Place, node: Mapping[str, Any], head: bool) -> Problems:
    given = node.get("scheduling")
    # Ray's own defaults write a list, which Compute Engine takes, too.
    rules = [given] if isinstance(given, dict) else given if isinstance(given, list) else []
    merged = {key: value for rule in rules if isinstance(rule, dict) for key, value in rule.items()}
    here = place / "scheduling"
    model = merged.get("provisioningModel")
    if model not in (None, "SPOT", "STANDARD", "RESERVATION_BOUND", "FLEX_START"):
        yield (here / "provisioningModel").wrong(f"value {model!r}", "use one of SPOT, STANDARD")
    spot = model == "SPOT" or merged.get("preemptible") is True
    if head and spot:
        yield here.wrong("the head is a spot instance, whose loss ends the cluster", "leave it out")
    if (spot or node.get("guestAccelerators")) and merged.get("onHostMaintenance") != "TERMINATE":
        what = "a spot instance" if spot else "an instance with GPUs"
        yield (here / "onHostMaintenance").wrong(f"{what} cannot be moved", "write TERMINATE")
    if spot and merged.get("automaticRestart") is not False:
        yield (here / "automaticRestart").wrong("a spot instance is not started again", "write false")
