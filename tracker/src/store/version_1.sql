-- A state file as version 1 wrote it.
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, boot TEXT NOT NULL, name TEXT NOT NULL, roots TEXT NOT NULL,
    parent TEXT, owner_uid INTEGER NOT NULL, keep TEXT NOT NULL, late INTEGER NOT NULL,
    opened_ns INTEGER NOT NULL
) STRICT;
CREATE TABLE kept (process TEXT PRIMARY KEY, boot TEXT NOT NULL) STRICT;
CREATE TABLE reaps (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, boot TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed', 'interrupted')),
    session TEXT, owner_uid INTEGER NOT NULL, request TEXT NOT NULL, attempts INTEGER NOT NULL,
    requested_ms INTEGER NOT NULL, finished_ms INTEGER, report TEXT, error TEXT
) STRICT;
INSERT INTO sessions VALUES ('00000000002a', 'one', 'job', '7@9', NULL, 0, '[]', 0, 1);
INSERT INTO reaps (id, boot, state, owner_uid, request, attempts, requested_ms)
    VALUES ('first', 'one', 'done', 0, '{}', 1, 1), ('second', 'one', 'running', 0, '{}', 1, 2);
PRAGMA user_version = 1;
