"""What is desired against what is → a plan, or a refusal with its reasons."""
