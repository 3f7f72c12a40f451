"""The Celery side: app, tasks, dispatch, ledger, envelopes."""
