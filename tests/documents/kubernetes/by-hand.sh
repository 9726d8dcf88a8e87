kubectl get nodes
kubectl get nodes -o jsonpath='{.items[*].status.allocatable}'
kubectl version
