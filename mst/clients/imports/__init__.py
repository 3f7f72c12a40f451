"""Results that others collected: Inspect logs, promptfoo output, JSON lines, read as transcripts to grade."""
