//! Words, documents and queries as PostgreSQL has them.
