"""The paper's evaluation remade: one Hydra experiment per figure, a fidelity table, and what the paper left open.

``smetric-gym reproduce figure=16`` runs ``conf/experiment/figure_16.yaml`` and draws it in the paper's form. A study
is a *grid* of runs (`grid`), a function that turns the runs into a table, a picture and sentences (`study`), and,
where the paper printed numbers, rows of the fidelity table (`fidelity`).
"""
