"""Recall: the message tools bound to one person, somebody who plans, and gates before what is said."""
