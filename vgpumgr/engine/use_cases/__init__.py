"""What users ask for, one file each: functions over a session, in one direction: look, plan,
refuse, reserve, run."""
