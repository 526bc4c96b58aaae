"""Ollama: models on one's own machine, without a key."""

from __future__ import annotations

from typing import ClassVar

from httpx2 import AsyncClient
from pydantic_ai.models import Model
from pydantic_ai.models.ollama import OllamaModel
from pydantic_ai.providers.ollama import OllamaProvider

from mnemon.drivers.llm.providers.provider import ProviderLLM


class OllamaLLM(ProviderLLM):
    provider: ClassVar[str] = "ollama"
    default_url: ClassVar[str] = "http://localhost:11434/v1"

    def credential(self, key: str) -> tuple[str, str]:
        return "authorization", f"Bearer {key}"

    def connect(self, http: AsyncClient, base_url: str, key: str) -> Model:
        return OllamaModel(self.model, provider=OllamaProvider(base_url, key, http_client=http))
