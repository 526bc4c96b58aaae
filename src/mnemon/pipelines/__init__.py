"""Floor 2: the stories, told in terms of ports and logic. No vendor is named here."""
