"""What is known of endpoints: where they come from, what is scraped of them, what their engines publish."""
