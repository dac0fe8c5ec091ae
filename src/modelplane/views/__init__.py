"""Pure read models: what people and programs want to know, worked out from the same values that decisions use."""
