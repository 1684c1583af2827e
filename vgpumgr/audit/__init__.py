"""The audit trail as others read and check it: its seal, and its records in the words of ECS."""
