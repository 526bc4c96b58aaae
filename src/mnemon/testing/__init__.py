"""Ships with the product: fixed clocks, the driver contract suites."""
