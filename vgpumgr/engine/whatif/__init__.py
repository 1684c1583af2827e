"""What-if: ledger and observation of a changed fleet; nothing changes."""
