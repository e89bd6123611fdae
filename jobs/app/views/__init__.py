"""What the app shows, as tables and figures; nothing here knows of a browser."""
