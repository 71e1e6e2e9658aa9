"""What people and programs see: live view, table, exports, report, plan."""
