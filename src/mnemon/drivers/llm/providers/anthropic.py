"""Anthropic's messages."""

from __future__ import annotations

from typing import ClassVar

from httpx2 import AsyncClient
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from mnemon.drivers.llm.providers.provider import ProviderLLM


class AnthropicLLM(ProviderLLM):
    provider: ClassVar[str] = "anthropic"
    default_url: ClassVar[str] = "https://api.anthropic.com"

    def credential(self, key: str) -> tuple[str, str]:
        return "x-api-key", key

    def connect(self, http: AsyncClient, base_url: str, key: str) -> Model:
        return AnthropicModel(self.model, provider=AnthropicProvider(api_key=key, base_url=base_url, http_client=http))
