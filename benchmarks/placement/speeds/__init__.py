"""What the speed experiment is made of: a fleet with everything on, rivals, a stopwatch."""
