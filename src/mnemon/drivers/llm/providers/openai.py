"""OpenAI, and any service that speaks its chat completions."""

from __future__ import annotations

from typing import ClassVar

from httpx2 import AsyncClient
from pydantic_ai.models import Model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from mnemon.drivers.llm.providers.provider import ProviderLLM


class OpenAILLM(ProviderLLM):
    provider: ClassVar[str] = "openai"
    default_url: ClassVar[str] = "https://api.openai.com/v1"

    def credential(self, key: str) -> tuple[str, str]:
        return "authorization", f"Bearer {key}"

    def connect(self, http: AsyncClient, base_url: str, key: str) -> Model:
        if base_url == self.default_url:
            return OpenAIChatModel(self.model, provider=OpenAIProvider(base_url, key, http_client=http))
        compatible = OpenAICompatibleProvider(self.provider, base_url=base_url, api_key=key, http_client=http)
        return OpenAIChatModel(self.model, provider=compatible)
