-- What came in through `write`: how long it may live, whose notes it belongs to, and its words folded, by which the same
-- words are found again.
ALTER TABLE entry ADD COLUMN ttl INTEGER;
ALTER TABLE entry ADD COLUMN memory_scope TEXT;
ALTER TABLE entry ADD COLUMN folded TEXT;
CREATE INDEX entry_by_folded ON entry (section, folded, at, position) WHERE folded IS NOT NULL;
