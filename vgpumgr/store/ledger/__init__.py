"""The ledger's subjects: for each its rows and values, with the statements that change them."""
