"""Runs, judgments and values as files of the field, whoever wrote them: read, checked, written."""
