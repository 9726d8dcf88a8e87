sdk.cancel_job(job.id) # delete_namespaced_job with propagation_policy="Foreground"
