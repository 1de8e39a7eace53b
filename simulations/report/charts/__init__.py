"""Charts of a run as HTML and SVG text: no scripts, no network, nothing that scales letters.

Positions are shares of the width, letters and marks are in pixels: a chart is as wide as its place, and its text is as
large on a telephone as on a screen. Colours are names that the page's style gives for light, dark and print. Colour
never carries a difference alone: shape, dash, position or a written label says the same. Long series are thinned, so
that a report of 10,000 queries is as small as one of 100.
"""
