"""Files on claims: a job's files on a PersistentVolumeClaim, read through a pod of ours."""
