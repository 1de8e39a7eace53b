"""Charts of a study, each twice: as a part of the page that fits any width, and as an SVG file that stands alone."""
