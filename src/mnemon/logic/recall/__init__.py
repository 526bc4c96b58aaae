"""Recall, decided apart from doing: a question becomes calls to the message tools, what they bring becomes a view in
which every point carries somebody's own words. Nothing here knows a user, a clock or a store."""

from mnemon.logic.recall.flow import Flow, recall_flow

__all__ = ["Flow", "recall_flow"]
