"""Floor 4: translate, call one engine method, translate back."""
