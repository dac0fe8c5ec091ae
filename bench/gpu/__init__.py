"""What only a GPU can answer: real vLLM engines behind the whole path."""
