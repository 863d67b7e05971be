"""Policies that only a study needs: variants for ablations. Read as files, as a policy of a user is."""
