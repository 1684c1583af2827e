"""What-if: ledger and observation as they would be otherwise; nothing changes."""
