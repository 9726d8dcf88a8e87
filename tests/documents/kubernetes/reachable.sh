python -c "from kubernetes import config; config.load_kube_config()" 2>/dev/null ||
python -c "from kubernetes import config; config.load_incluster_config()" 2>/dev/null || {
echo "MISSING: no kubeconfig at ~/.kube/config and not running in a pod."
echo "Configure kubectl (e.g., 'aws eks update-kubeconfig --name my-cluster') or set $KUBECONFIG."
exit 1
}
