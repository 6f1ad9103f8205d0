"""The paper's experiments, from the list of runs to tables and a summary; `reproduce.prepare` is where it begins.

`protocol` lists the runs, `methods` the estimators compared, `evaluation` fits and scores one run, `runner` does so for
all of them in parallel, `store` keeps the numbers, `results` aggregates them. `tables`, `summary` and
`summary_experiments` compare them with the `published` ones; `reproduce` ties all of it together.
"""
