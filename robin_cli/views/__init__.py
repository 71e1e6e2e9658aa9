"""Output for people and programs: live view, table, exports, report, plan."""
