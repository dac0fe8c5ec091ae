"""The product on genuine components, from installation to removal, as one scenario of plain steps."""
