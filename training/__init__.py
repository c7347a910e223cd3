"""The recipe of `words.table`: what words mean, learned once from open models and open texts."""
