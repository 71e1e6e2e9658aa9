"""Any table in any form."""
