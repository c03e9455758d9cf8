"""Run by Alembic: applies revisions on the caller's connection, in the caller's transaction.

Offline, it writes the revisions' SQL for the given dialect instead.
"""

from alembic import context

from tilewright.database.schema import metadata

context.configure(
    connection=context.config.attributes.get("connection"),
    dialect_name=context.config.attributes.get("dialect"),
    target_metadata=metadata,
    literal_binds=context.is_offline_mode(),
    render_as_batch=True,  # SQLite alters a table by rebuilding it
    transactional_ddl=True,
)
if context.is_offline_mode():
    context.run_migrations()  # no BEGIN and COMMIT in between
else:
    with context.begin_transaction():
        context.run_migrations()
