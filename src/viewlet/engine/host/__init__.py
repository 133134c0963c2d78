"""What every engine that runs kernels keeps beside them: tables, memos, static maps, records."""
