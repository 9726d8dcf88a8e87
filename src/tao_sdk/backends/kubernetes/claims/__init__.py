"""Files on claims: what a job has left on a PersistentVolumeClaim, seen through a pod of ours."""
