"""Kubernetes manifests as strict models: a key that is not known here is a mistake.

Written by hand after the custom resource definitions of KubeRay 1.6 and the Kubernetes API, for
the fields that our manifests use: no package of PyPI, npm or Debian ships the definitions.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, model_validator

Text = Annotated[str, StringConstraints(min_length=1)]
Dns = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
Quantity = Annotated[str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)?(m|[KMGT]i?)?$")]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Metadata(Strict):
    name: Dns


class EnvVar(Strict):
    name: Text
    value: str


class SecretRef(Strict):
    name: Dns
    optional: bool = False


class EnvFrom(Strict):
    secretRef: SecretRef


class Port(Strict):
    name: Annotated[Dns, StringConstraints(max_length=15)]
    containerPort: Annotated[int, Field(ge=1, le=65535)]


class Resources(Strict):
    requests: dict[Literal["cpu", "memory"], Quantity]
    limits: dict[Literal["cpu", "memory"], Quantity]


class VolumeMount(Strict):
    name: Dns
    mountPath: Annotated[str, StringConstraints(pattern=r"^/")]


class Container(Strict):
    name: Dns
    image: Text
    env: list[EnvVar] = []
    envFrom: list[EnvFrom] = []
    ports: list[Port] = []
    resources: Resources
    volumeMounts: list[VolumeMount] = []


class ConfigMap(Strict):
    name: Dns


class Volume(Strict):
    name: Dns
    configMap: ConfigMap


class Toleration(Strict):
    key: Text
    operator: Literal["Exists", "Equal"]
    value: str
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class Pod(Strict):
    containers: list[Container] = Field(min_length=1)
    volumes: list[Volume] = []
    nodeSelector: dict[str, str] = {}
    tolerations: list[Toleration] = []
    terminationGracePeriodSeconds: int = 30

    @model_validator(mode="after")
    def _mounts_have_volumes(self) -> "Pod":
        mounted = {mount.name for c in self.containers for mount in c.volumeMounts}
        if mounted != {volume.name for volume in self.volumes}:
            raise ValueError("what is mounted must be a volume, and the other way round")
        return self


class Template(Strict):
    spec: Pod


class Head(Strict):
    rayStartParams: dict[str, str]
    template: Template


class Workers(Head):
    groupName: Dns
    replicas: Annotated[int, Field(ge=0)]
    minReplicas: Annotated[int, Field(ge=0)]
    maxReplicas: Annotated[int, Field(ge=0)]

    @model_validator(mode="after")
    def _in_order(self) -> "Workers":
        if not self.minReplicas <= self.replicas <= self.maxReplicas:
            raise ValueError("minReplicas <= replicas <= maxReplicas must hold")
        return self


class Auth(Strict):
    mode: Literal["token", "disabled"]


class Tls(Strict):
    """Of KubeRay 1.7; empty: the operator has certificates made."""

    certificateSecretName: Dns | None = None
    workerCertificateSecretName: Dns | None = None


class Autoscaler(Strict):
    version: Literal["v1", "v2"]
    idleTimeoutSeconds: int


class ClusterSpec(Strict):
    rayVersion: Annotated[str, StringConstraints(pattern=r"^\d+\.\d+\.\d+$")]
    authOptions: Auth
    tlsOptions: Tls | None = None
    enableInTreeAutoscaling: bool
    autoscalerOptions: Autoscaler
    headGroupSpec: Head
    workerGroupSpecs: list[Workers] = Field(min_length=1)


class JobSpec(Strict):
    entrypoint: Text
    submissionMode: Literal["K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"]
    backoffLimit: Annotated[int, Field(ge=0)]
    shutdownAfterJobFinishes: bool
    ttlSecondsAfterFinished: Annotated[int, Field(ge=0)]
    rayClusterSpec: ClusterSpec


class RayCluster(Strict):
    apiVersion: Literal["ray.io/v1"]
    kind: Literal["RayCluster"]
    metadata: Metadata
    spec: ClusterSpec


class RayJob(Strict):
    apiVersion: Literal["ray.io/v1"]
    kind: Literal["RayJob"]
    metadata: Metadata
    spec: JobSpec


class Labels(Strict):
    matchLabels: dict[str, str] = {}


class Peer(Strict):
    podSelector: Labels | None = None
    namespaceSelector: Labels | None = None


class PolicyPort(Strict):
    port: Annotated[int, Field(ge=1, le=65535)]


class Ingress(Strict):
    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)
    peers: list[Peer] = Field(alias="from", min_length=1)
    ports: list[PolicyPort] = []


class PolicySpec(Strict):
    podSelector: Labels
    policyTypes: list[Literal["Ingress", "Egress"]]
    ingress: list[Ingress]


class NetworkPolicy(Strict):
    apiVersion: Literal["networking.k8s.io/v1"]
    kind: Literal["NetworkPolicy"]
    metadata: Metadata
    spec: PolicySpec


MANIFEST: TypeAdapter[Any] = TypeAdapter(
    Annotated[RayCluster | RayJob | NetworkPolicy, Field(discriminator="kind")]
)


def check_manifest(manifest: dict[str, Any]) -> None:
    """ValueError where a key is unknown, missing, or of a value that cannot be."""
    MANIFEST.validate_python(manifest)
