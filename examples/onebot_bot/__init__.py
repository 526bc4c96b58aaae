"""A QQ bot (OneBot v11) that remembers: copy this folder and give it a brain of your own."""
