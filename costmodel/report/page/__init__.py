"""The page that people send to each other: one HTML file, its figures as SVG and PNG. Nothing is computed here."""
