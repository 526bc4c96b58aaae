-- By its address first: whoever keeps a session or a node up to date knows the address and sees every section.
DROP INDEX entry_by_uri;
CREATE INDEX entry_by_uri ON entry (uri, section, position);
