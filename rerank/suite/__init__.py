"""What a suite of models on tasks comes to: values, comparisons, the gate, the report's numbers."""
