"""What several models are built from: layers, and checks of shapes."""
