"""Risk of GPUs: alarms by rules and by a hazard table, beside baselines."""
