"""What a chat bot leaves behind, made into memories in the background, and found again."""
