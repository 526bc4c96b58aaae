"""What can be asked of the service, a file for each topic: translate, call one engine method, translate back."""
