"""Every default of smetric_gym, as Hydra groups; `smetric-gym evaluate --help` shows them."""
