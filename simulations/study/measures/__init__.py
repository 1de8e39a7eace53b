"""What a study measures of a division, of its teachers, of one party's influence, and of who gains."""

from __future__ import annotations

from consilium.simulations.study.measures.division import division_matrices, division_rows
from consilium.simulations.study.measures.gain import gain_rows
from consilium.simulations.study.measures.influence import influence_rows
from consilium.simulations.study.measures.votes import teacher_matrices, teacher_rows

__all__ = ["division_matrices", "division_rows", "gain_rows", "influence_rows", "teacher_matrices", "teacher_rows"]
