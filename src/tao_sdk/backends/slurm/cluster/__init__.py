"""Facts about a cluster: from settings, from a survey, and from the doctor's checks."""
