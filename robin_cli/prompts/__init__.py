"""From a pair to the messages that are sent: rubrics and templates."""
