"""KubernetesSDK: jobs of a Kubernetes cluster."""

from tao_sdk.client import PlatformSDK


class KubernetesSDK(PlatformSDK):
    """Runs jobs on a cluster. PlatformSDK below says what the arguments mean.

    Its own options, further keywords of create_job: namespace, context, image_pull_secret,
    image_pull_policy, node_selector, tolerations, service_account, priority_class, resources,
    gpu_resource, host_network, annotations, queue, ttl. What each means:
    help(tao_sdk.backends.kubernetes.options.KubernetesOptions), or docs/kubernetes.md.
    """

    platform = "kubernetes"
