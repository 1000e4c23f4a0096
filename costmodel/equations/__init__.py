"""What is true of any plan: numbers in, numbers out, nothing else imported."""
