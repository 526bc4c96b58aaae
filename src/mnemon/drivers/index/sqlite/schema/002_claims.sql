-- Claims: whether one holds, and the node it is filed under.
ALTER TABLE entry ADD COLUMN state TEXT;
ALTER TABLE entry ADD COLUMN node TEXT;
