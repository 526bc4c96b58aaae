-- Ids are long and stand at both ends of every edge: each is stored once, and rows know it by its number. New numbers
-- grow, so what is told together lies together, and a turn touches the ends of the trees instead of leaves all over.
CREATE TABLE ident (
    number INTEGER PRIMARY KEY,
    id     TEXT NOT NULL UNIQUE
);

-- What one origin says to one audience, and how far it is.
CREATE TABLE speech (
    number   INTEGER PRIMARY KEY,
    tenant   TEXT    NOT NULL,
    origin   TEXT    NOT NULL,
    audience INTEGER NOT NULL,
    mark     TEXT    NOT NULL,
    UNIQUE (tenant, origin, audience)
);
CREATE INDEX speech_to ON speech (audience);

-- Times are microseconds since 1970. `at` and `finish` are when it was; `subject` and `facet` what it is about: a state's
-- subject and property, who acts in an event, the utterance of evidence, the kind of a time slice. Of several rows of one
-- id, those said to the closest audience count (`closeness`): what anybody may write never hides what is one's own. Of
-- these the newest (`learnt`) says what the item is like. `id` is there for the order of a listing.
CREATE TABLE new_item (
    row       INTEGER PRIMARY KEY,
    speech    INTEGER NOT NULL,
    ident     INTEGER NOT NULL,
    id        TEXT    NOT NULL,
    audience  INTEGER NOT NULL,
    kind      TEXT    NOT NULL,
    at        INTEGER NOT NULL,
    finish    INTEGER,
    subject   INTEGER,
    facet     TEXT,
    closeness INTEGER NOT NULL,
    learnt    INTEGER NOT NULL,
    published INTEGER NOT NULL DEFAULT 1,
    expires   INTEGER,
    body      TEXT    NOT NULL
);

-- `evidence` holds pointers as [0 for the source, 1 for the target or an id, start, end]; `body` what is seldom there.
CREATE TABLE new_edge (
    speech    INTEGER NOT NULL,
    src       INTEGER NOT NULL,
    rel       TEXT    NOT NULL,
    dst       INTEGER NOT NULL,
    audience  INTEGER NOT NULL,
    weight    REAL    NOT NULL DEFAULT 1.0,
    learnt    INTEGER,
    published INTEGER NOT NULL DEFAULT 1,
    expires   INTEGER,
    evidence  TEXT,
    body      TEXT,
    PRIMARY KEY (speech, src, rel, dst)
) WITHOUT ROWID;

-- What the file held before; items keep their rows, so the names of entities stand.
INSERT INTO ident (id)
    SELECT id FROM item UNION SELECT subject FROM item WHERE subject IS NOT NULL
    UNION SELECT src FROM edge UNION SELECT dst FROM edge;
INSERT INTO speech (tenant, origin, audience, mark)
    SELECT o.tenant, o.name, s.audience, s.mark FROM said s JOIN origin o ON o.id = s.origin ORDER BY o.id, s.audience;
INSERT INTO new_item
    SELECT i.row, s.number, n.number, i.id, i.audience, i.kind, i.at, i.finish, t.number, i.facet, i.closeness,
        i.learnt, i.published, i.expires, i.body
    FROM item i JOIN origin o ON o.id = i.origin
    JOIN speech s ON s.tenant = o.tenant AND s.origin = o.name AND s.audience = i.audience
    JOIN ident n ON n.id = i.id LEFT JOIN ident t ON t.id = i.subject;
INSERT OR REPLACE INTO new_edge
    SELECT s.number, a.number, e.rel, b.number, e.audience, e.weight, e.learnt, e.published, e.expires, e.evidence,
        e.body
    FROM edge e JOIN origin o ON o.id = e.origin
    JOIN speech s ON s.tenant = o.tenant AND s.origin = o.name AND s.audience = e.audience
    JOIN ident a ON a.id = e.src JOIN ident b ON b.id = e.dst ORDER BY e.row;
DROP TABLE item;
DROP TABLE edge;
DROP TABLE said;
DROP TABLE origin;
ALTER TABLE new_item RENAME TO item;
ALTER TABLE new_edge RENAME TO edge;

CREATE UNIQUE INDEX item_said ON item (speech, ident);
CREATE INDEX item_by_id ON item (ident, audience);
CREATE INDEX item_by_time ON item (audience, kind, at, id, finish);
CREATE INDEX item_by_subject ON item (subject, kind) WHERE subject IS NOT NULL;
CREATE INDEX edge_out ON edge (src, rel, dst);
CREATE INDEX edge_in ON edge (dst, rel);
