-- `touched` grows when rows change only in what they are filtered by: their words and vectors in memory stay good.
ALTER TABLE section ADD COLUMN touched INTEGER NOT NULL DEFAULT 0;
