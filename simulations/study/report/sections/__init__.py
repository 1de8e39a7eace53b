"""The parts of a study's report, one module each: from the view to tables and pictures; none where there is nothing."""
