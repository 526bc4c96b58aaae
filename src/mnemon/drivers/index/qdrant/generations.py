"""Which collection holds the index, and which one is being built beside it: one small record, replaced at once."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from mnemon.contracts.filters import FIELDS
from mnemon.drivers.index.qdrant.filters import GRAMS, PRINCIPALS, PRINCIPALS_COUNT, TENANT
from mnemon.drivers.index.qdrant.place import Place, is_missing, is_there_already
from mnemon.drivers.index.qdrant.points import AT, DENSE, POSITION, WORDS

_POINT = 0
_SCHEMAS: dict[type, models.PayloadSchemaType] = {
    str: models.PayloadSchemaType.KEYWORD,
    list: models.PayloadSchemaType.KEYWORD,
    int: models.PayloadSchemaType.INTEGER,
    float: models.PayloadSchemaType.FLOAT,
    bool: models.PayloadSchemaType.BOOL,
}


@dataclass(frozen=True, slots=True)
class Generation:
    """One build of the index with one embedding model."""

    collection: str
    model: str
    dimension: int


@dataclass(frozen=True, slots=True)
class Record:
    """`made` counts collections, so that no name is used twice."""

    active: Generation
    building: Generation | None
    made: int


class Generations:
    """The record is the only point of the collection the URL names; the entries are in collections beside it."""

    def __init__(self, client: AsyncQdrantClient, place: Place) -> None:
        self._client = client
        self._place = place

    async def read(self) -> Record | None:
        try:
            points = await self._client.retrieve(self._place.collection, ids=[_POINT], with_payload=True)
        except (UnexpectedResponse, ValueError) as error:
            if is_missing(error):
                return None
            raise
        return _record(points[0].payload or {}) if points else None

    async def write(self, record: Record) -> None:
        point = models.PointStruct(id=_POINT, vector={}, payload=asdict(record))
        await self._client.upsert(self._place.collection, points=[point], wait=True)

    async def found(self, model: str, dimension: int) -> Record:
        """The first record of a new index."""
        await self._create(self._place.collection, {}, {})
        record = Record(await self.make(1, model, dimension), None, 1)
        await self.write(record)
        return record

    async def make(self, number: int, model: str, dimension: int) -> Generation:
        """An empty collection for a new build."""
        name = f"{self._place.collection}-{number}"
        # Vectors have length one, so their product is the cosine, and Qdrant need not change them.
        dense = models.VectorParams(size=dimension, distance=models.Distance.DOT)
        if await self._create(name, {DENSE: dense}, {WORDS: models.SparseVectorParams()}) and not self._place.is_local:
            await self._index_payload(name)
        return Generation(name, model, dimension)

    async def drop(self, generation: Generation | None) -> None:
        if generation is not None:
            await self._client.delete_collection(generation.collection)

    async def _create(
        self, name: str, dense: dict[str, models.VectorParams], words: dict[str, models.SparseVectorParams]
    ) -> bool:
        try:
            await self._client.create_collection(name, vectors_config=dense, sparse_vectors_config=words or None)
        except (UnexpectedResponse, ValueError) as error:
            if not is_there_already(error):
                raise
            return False
        return True

    async def _index_payload(self, name: str) -> None:
        """A server filters by index; in local mode there are none."""
        whole = models.PayloadSchemaType.INTEGER
        words = models.PayloadSchemaType.KEYWORD
        keys: dict[str, Any] = {field: _SCHEMAS[kind] for field, kind in FIELDS.items()}
        keys |= {AT: whole, POSITION: whole, PRINCIPALS_COUNT: whole, PRINCIPALS: words, GRAMS: words}
        keys[TENANT] = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
        for field, schema in keys.items():
            await self._client.create_payload_index(name, field_name=field, field_schema=schema, wait=True)


def _record(payload: dict[str, Any]) -> Record:
    building = payload.get("building")
    return Record(Generation(**payload["active"]), Generation(**building) if building else None, int(payload["made"]))
