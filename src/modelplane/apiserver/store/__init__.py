"""The store behind the API: whole objects in SQLite, with revisions, history and an index in memory."""
