-- Those who may see exactly the same, in one domain. `handle` is the most particular of their principals: by it
-- somebody's audiences are found without looking at anybody else's.
CREATE TABLE audience (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant     TEXT NOT NULL,
    handle     TEXT NOT NULL,
    principals TEXT NOT NULL,
    domain     TEXT NOT NULL,
    UNIQUE (tenant, principals, domain)
);
CREATE INDEX audience_by_handle ON audience (tenant, handle);

-- Who says something.
CREATE TABLE origin (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    name   TEXT NOT NULL,
    UNIQUE (tenant, name)
);

-- To whom they say it, and how far they are. Every row of `item` and `edge` has its origin and audience here.
CREATE TABLE said (
    origin   INTEGER NOT NULL,
    audience INTEGER NOT NULL,
    mark     TEXT    NOT NULL,
    PRIMARY KEY (origin, audience)
) WITHOUT ROWID;
CREATE INDEX said_to ON said (audience);

-- Times are microseconds since 1970. `at` and `finish` are when it was; `subject` and `facet` what it is about: a state's
-- subject and property, who acts in an event, the utterance of evidence, the kind of a time slice. Of several rows of one
-- id, those said to the closest audience count (`closeness`): what anybody may write never hides what is one's own. Of
-- these the newest (`learnt`) says what the item is like.
CREATE TABLE item (
    row       INTEGER PRIMARY KEY,
    id        TEXT    NOT NULL,
    audience  INTEGER NOT NULL,
    origin    INTEGER NOT NULL,
    kind      TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    finish    INTEGER,
    subject   TEXT,
    facet     TEXT,
    closeness INTEGER NOT NULL,
    learnt    INTEGER NOT NULL,
    published INTEGER NOT NULL,
    expires   INTEGER,
    body      TEXT    NOT NULL
);
CREATE INDEX item_by_id ON item (id, audience);
CREATE INDEX item_by_time ON item (audience, kind, at, id, finish);
CREATE INDEX item_by_subject ON item (subject, kind) WHERE subject IS NOT NULL;
CREATE INDEX item_by_origin ON item (origin, audience);

-- What an entity is called, folded.
CREATE TABLE name (
    folded TEXT    NOT NULL,
    item   INTEGER NOT NULL,
    PRIMARY KEY (folded, item)
) WITHOUT ROWID;
CREATE INDEX name_of ON name (item);

-- `evidence` holds pointers as [0 for the source, 1 for the target or an id, start, end]; `body` what is seldom there.
CREATE TABLE edge (
    row       INTEGER PRIMARY KEY,
    src       TEXT    NOT NULL,
    rel       TEXT    NOT NULL,
    dst       TEXT    NOT NULL,
    audience  INTEGER NOT NULL,
    origin    INTEGER NOT NULL,
    weight    REAL    NOT NULL,
    learnt    INTEGER,
    published INTEGER NOT NULL,
    expires   INTEGER,
    evidence  TEXT,
    body      TEXT
);
CREATE INDEX edge_out ON edge (src, rel, dst);
CREATE INDEX edge_in ON edge (dst, rel);
CREATE INDEX edge_by_origin ON edge (origin, audience);
