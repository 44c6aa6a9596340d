"""Questions about captures, answered from the records: plain functions over Arrow tables; no printing."""
