"""Google's Gemini."""

from __future__ import annotations

from typing import ClassVar

from httpx2 import AsyncClient
from pydantic_ai.models import Model
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.providers.google import GoogleProvider

from mnemon.drivers.llm.providers.provider import ProviderLLM


class GeminiLLM(ProviderLLM):
    provider: ClassVar[str] = "gemini"
    default_url: ClassVar[str] = "https://generativelanguage.googleapis.com"

    def credential(self, key: str) -> tuple[str, str]:
        return "x-goog-api-key", key

    def connect(self, http: AsyncClient, base_url: str, key: str) -> Model:
        return GoogleModel(self.model, provider=GoogleProvider(api_key=key, base_url=base_url, http_client=http))
