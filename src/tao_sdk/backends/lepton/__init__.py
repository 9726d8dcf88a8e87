"""Jobs of a DGX Cloud Lepton workspace."""
