"""The playground: ``smetric-gym play`` serves a page where two policies route the same sessions side by side."""
