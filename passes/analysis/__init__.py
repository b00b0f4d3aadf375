"""What passes ask about IR before they change it."""
