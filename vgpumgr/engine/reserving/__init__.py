"""A plan or a wish → the reservation that one transaction writes: records, tasks, steps."""
