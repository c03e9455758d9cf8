"""Run by Alembic: applies revisions on the connection, and in the transaction, that the caller opened."""

from alembic import context

from tilewright.database.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite alters a table by rebuilding it
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
