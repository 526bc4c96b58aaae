-- A generation is one build of the index with one embedding model; a rebuild fills a second one beside the first.
CREATE TABLE generation (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    model     TEXT    NOT NULL,
    dimension INTEGER NOT NULL,
    state     TEXT    NOT NULL CHECK (state IN ('active', 'building'))
);
CREATE UNIQUE INDEX generation_one_a_state ON generation (state);

-- The rows of one kind that exactly the same people may see. `handle` is the most particular of their principals: by it
-- somebody's sections are found without looking at anybody else's. `epoch` grows when rows change or go; new rows only
-- raise `last_row`.
CREATE TABLE section (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    generation INTEGER NOT NULL,
    tenant     TEXT    NOT NULL,
    handle     TEXT    NOT NULL,
    principals TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    epoch      INTEGER NOT NULL DEFAULT 0,
    last_row   INTEGER NOT NULL DEFAULT 0,
    UNIQUE (generation, tenant, principals, kind)
);
CREATE INDEX section_by_handle ON section (generation, tenant, handle);

-- What a row can be found and filtered by. Its words and vector lie apart, so that filtering reads little.
CREATE TABLE entry (
    row        INTEGER PRIMARY KEY AUTOINCREMENT,
    generation INTEGER NOT NULL,
    tenant     TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    section    INTEGER NOT NULL,
    kind       TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    position   INTEGER NOT NULL,
    session_id TEXT,
    seq        INTEGER,
    ts         INTEGER,
    role       TEXT,
    speaker    TEXT,
    turn_id    TEXT,
    uri        TEXT,
    shelf      TEXT,
    level      INTEGER,
    domain     TEXT,
    source     TEXT,
    modality   TEXT,
    status     TEXT,
    fact_type  TEXT,
    importance REAL,
    published  INTEGER,
    kept       INTEGER,
    expires_at INTEGER,
    lists      TEXT,
    UNIQUE (generation, tenant, id)
);
CREATE INDEX entry_by_time ON entry (section, at, position);
CREATE INDEX entry_by_uri ON entry (section, uri, position);

CREATE TABLE body (
    row      INTEGER PRIMARY KEY,
    text     TEXT NOT NULL,
    metadata TEXT NOT NULL,
    terms    BLOB NOT NULL,
    vector   BLOB
);
