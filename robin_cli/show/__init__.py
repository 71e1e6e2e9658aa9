"""Output for people and programs: tables and charts, declared once, and every form of them."""
